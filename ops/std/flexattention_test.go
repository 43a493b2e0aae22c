package std

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// The operators of ai.onnx.preview pass what those of ai.onnx do.
func TestFlexAttention(t *testing.T) {
	own := opstest.Suite{Domain: "ai.onnx.preview", Samples: samples.Of}
	t.Run("infer", own.Infer)
	t.Run("body", own.Body)
	t.Run("wide", own.Wide)
	t.Run("bad inputs", own.BadInputs)
}
