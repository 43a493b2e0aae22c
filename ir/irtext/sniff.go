package irtext

import "bytes"

// Begins reports whether a file that starts with head is meant to be a graph as text: after comments there is a
// header, as in "<opset_import: …", or a name and the parenthesis before the inputs. head may also consist only of
// comments.
func Begins(head []byte) bool {
	s := scanner{src: head}
	if s.here() == len(head) {
		return bytes.IndexByte(head, '#') >= 0
	}
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
