package integers_test

import (
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// on checks nodes on the backend.
var on = cputest.On(func() runtime.Backend { return cpu.New() })
