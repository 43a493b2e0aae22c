package std

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestFlexAttention runs the checks of ai.onnx on the operators of ai.onnx.preview.
func TestFlexAttention(t *testing.T) {
	own := opstest.Suite{Domain: "ai.onnx.preview", Samples: samples.Of}
	t.Run("infer", own.Infer)
	t.Run("body", own.Body)
	t.Run("wide", own.Wide)
	t.Run("bad inputs", own.BadInputs)
}
