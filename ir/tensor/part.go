package tensor

// CopyPart copies t to part k of whole along axis, or from there if to is false. All parts have the shape of t.
func CopyPart(whole, t *Tensor, axis, k int, to bool) {
	outer := 1
	for _, n := range t.Shape()[:axis] {
		outer *= n
	}
	w, b := whole.Bytes(), t.Bytes()
	if outer == 0 || len(b) == 0 {
		return
	}
	size, stride := len(b)/outer, len(w)/outer
	for i := range outer {
		part := w[i*stride+k*size : i*stride+(k+1)*size]
		if to {
			copy(part, b[i*size:(i+1)*size])
		} else {
			copy(b[i*size:(i+1)*size], part)
		}
	}
}
