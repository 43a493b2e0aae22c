package cpu

// wholeFunc computes a step from whole tensors.
type wholeFunc func(e *executable, s *step) error

// wholeMaker makes the kernel for shapes, or gives nil where they do not fit.
type wholeMaker func(in [][]int, out []int) wholeFunc

// wholes is the table of operators that have a kernel over whole tensors.
var wholes = map[string]func(s *step) wholeMaker{}
