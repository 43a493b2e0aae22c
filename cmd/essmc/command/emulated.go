//go:build emulate

package command

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// With the tag emulate the command finds an emulated card: runtime/cuda/device.sh tries its steps so on a machine
// without one.
func init() {
	openDriver = func() (driver.Driver, error) {
		d := emu.New(emu.Options{})
		return d, driver.Start(d)
	}
}
