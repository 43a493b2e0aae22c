package training

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

var suite = opstest.Suite{Domain: Domain, Samples: samples.Of}

func TestInfer(t *testing.T)         { suite.Infer(t) }
func TestWide(t *testing.T)          { suite.Wide(t) }
func TestBadInputs(t *testing.T)     { suite.BadInputs(t) }
func TestBadAttributes(t *testing.T) { suite.BadAttributes(t) }
func TestAlong(t *testing.T)         { suite.Along(t, 100) }

func TestONNXNodes(t *testing.T) {
	opstest.Nodes{Match: func(name string) bool {
		return strings.HasPrefix(name, "test_ada") || strings.Contains(name, "momentum")
	}}.Run(t)
}
