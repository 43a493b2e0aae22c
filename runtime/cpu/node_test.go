package cpu

import (
	"github.com/essmc/essmc/runtime"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// on checks nodes on the backend.
var on = On(func() runtime.Backend { return New() })
