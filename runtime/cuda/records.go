package cuda

// The packages that register records, imported for that effect:
import (
	_ "github.com/essmc/essmc/runtime/cuda/internal/elementwise"
	_ "github.com/essmc/essmc/runtime/cuda/internal/layers"
	_ "github.com/essmc/essmc/runtime/cuda/internal/plain"
	_ "github.com/essmc/essmc/runtime/cuda/internal/products"
	_ "github.com/essmc/essmc/runtime/cuda/internal/recurrence"
	_ "github.com/essmc/essmc/runtime/cuda/internal/rows"
	_ "github.com/essmc/essmc/runtime/cuda/internal/tensors"
)
