package lowering

import "fmt"

// leastLow is the minimum number of rows and of columns of a matrix whose products may use a lower precision. For smaller
// ones, rounding the input takes longer than the product gains. Besides, the first and the last products of a model, which
// are the most sensitive ones, are small.
const leastLow = 32

// SmallProduct returns the reason why a product with an n × k matrix stays in float32, or "" if the matrix is large enough
// for a lower precision.
func SmallProduct(n, k int) string {
	if n >= leastLow && k >= leastLow {
		return ""
	}
	return fmt.Sprintf("matrices of %d × %d are smaller than %d × %d", n, k, leastLow, leastLow)
}
