package irtext

import "bytes"

// Begins reports whether a file that begins with head is meant to be a graph as text: behind comments there is a header, as
// in "<opset_import: …", or a name and the parenthesis before the inputs. Comments alone may go on behind head.
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
