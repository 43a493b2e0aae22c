package ml

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ops/opstest"
	opsamples "github.com/essmc/essmc/ops/opstest/samples"
)

var suite = opstest.Suite{Domain: Domain, Samples: opsamples.Of, Refused: opsamples.Refused[Domain]}

func TestInfer(t *testing.T)         { suite.Infer(t) }
func TestWide(t *testing.T)          { suite.Wide(t) }
func TestBadInputs(t *testing.T)     { suite.BadInputs(t) }
func TestAlong(t *testing.T)         { suite.Along(t, 140) }
func TestBadAttributes(t *testing.T) { suite.BadAttributes(t) }
func TestORT(t *testing.T)           { opstest.Cases(t, "testdata/ort.json") }

func TestONNXNodes(t *testing.T) {
	opstest.Nodes{Match: func(name string) bool { return strings.HasPrefix(name, "test_ai_onnx_ml") }}.Run(t)
}
