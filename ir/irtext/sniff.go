package irtext

// Begins reports whether a file that begins with head is meant to be a graph as text: behind comments there is a header, as
// in "<opset_import: …", or a name and the parenthesis before the inputs.
func Begins(head []byte) bool {
	s := scanner{src: head}
	if s.accept('<') {
		if s.peek() == '>' {
			return true
		}
		_, ok := s.name()
		return ok && s.peek() == ':'
	}
	_, ok := s.name()
	return ok && s.peek() == '('
}
