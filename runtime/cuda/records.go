package cuda

// The packages below internal that register records, by an import each:
import (
	_ "github.com/essmc/essmc/runtime/cuda/internal/elementwise"
	_ "github.com/essmc/essmc/runtime/cuda/internal/layers"
	_ "github.com/essmc/essmc/runtime/cuda/internal/plain"
	_ "github.com/essmc/essmc/runtime/cuda/internal/products"
	_ "github.com/essmc/essmc/runtime/cuda/internal/recurrence"
	_ "github.com/essmc/essmc/runtime/cuda/internal/rows"
	_ "github.com/essmc/essmc/runtime/cuda/internal/tensors"
)
