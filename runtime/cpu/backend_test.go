package cpu_test

import (
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cpu"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, func() runtime.Backend { return cpu.New() }, backendtest.Options{Must: []string{"essm.SSM", "essm.DenseSSM", "essm.Scan", "essm.Linear"}})
}

func TestReference(t *testing.T) {
	backendtest.Reference(t, func() runtime.Backend { return cpu.New() }, backendtest.Options{})
}
