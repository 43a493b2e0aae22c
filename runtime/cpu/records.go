package cpu

// Packages of kernels, which register the records of their operators.
import (
	_ "github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	_ "github.com/essmc/essmc/runtime/cpu/internal/recurrence"
	_ "github.com/essmc/essmc/runtime/cpu/internal/rows"
	_ "github.com/essmc/essmc/runtime/cpu/internal/streaming"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/convolution"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/elements"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/integers"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/models"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/moves"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/pooling"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/products"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/reductions"
	_ "github.com/essmc/essmc/runtime/cpu/internal/tensors/sequences"
	_ "github.com/essmc/essmc/runtime/cpu/internal/windowed"
)
