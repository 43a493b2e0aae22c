package driver

import (
	"errors"
	"fmt"
	"runtime"
)

// The requirements of essmc on a driver and a card.
const (
	// LeastVersion is CUDA 11.4 (drivers 470 and newer), the first version with memory pools and graphs as the
	// backend uses them.
	LeastVersion = 11040
	// LeastMajor is the first part of the minimum compute capability: 8.0 has the instructions that the kernels use.
	LeastMajor = 8
)

// VersionText returns a version as people write it: "12.4" for 12040.
func VersionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Start calls Init, and checks that there is a card and that the driver is new enough. Its error is one line that
// says what to do.
func Start(d Driver) error {
	if err := d.Init(); err != nil {
		switch {
		case Is(err, StubLibrary):
			return errors.New("this library is a stub to link against, not a driver: install NVIDIA's driver, " +
				"and take folders called stubs off LD_LIBRARY_PATH")
		case Is(err, NoDevice):
			return errors.New("the driver finds no card: see whether nvidia-smi lists one, and whether this process may use it " +
				"(CUDA_VISIBLE_DEVICES, or --gpus all for containers)")
		case Is(err, DriverMismatch):
			return errors.New("the library is of another version than the driver in the kernel: restart the machine after an " +
				"update of the driver; in a container, use the library of the host")
		}
		return fmt.Errorf("the driver does not start: %w", err)
	}
	v, err := d.Version()
	if err != nil {
		return err
	}
	if v < LeastVersion {
		return fmt.Errorf("the driver is for CUDA %s: CUDA %s or newer is needed, install a newer driver of NVIDIA's",
			VersionText(v), VersionText(LeastVersion))
	}
	n, err := d.DeviceCount()
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("the driver finds no card: see whether nvidia-smi lists one, and whether this process may use it " +
			"(CUDA_VISIBLE_DEVICES, or --gpus all for containers)")
	}
	return nil
}

// Card describes a device.
type Card struct {
	Device       Device
	Name         string
	Major, Minor int    // compute capability
	Total        uint64 // bytes of memory
	// Pools reports whether the driver supports memory pools on the card.
	Pools bool
}

// String returns "device 0 (NVIDIA H100)".
func (c *Card) String() string {
	if c.Name == "" {
		return fmt.Sprintf("device %d", c.Device)
	}
	return fmt.Sprintf("device %d (%s)", c.Device, c.Name)
}

// Describe returns the description of a device.
func Describe(d Driver, device Device) (*Card, error) {
	c := &Card{Device: device}
	var err error
	if c.Name, err = d.DeviceName(device); err != nil {
		return c, err
	}
	if c.Total, err = d.DeviceMemory(device); err != nil {
		return c, err
	}
	pools := 0
	for _, a := range []struct {
		attribute Attribute
		to        *int
	}{{ComputeMajor, &c.Major}, {ComputeMinor, &c.Minor}, {MemoryPools, &pools}} {
		if *a.to, err = d.DeviceAttribute(device, a.attribute); err != nil {
			return c, err
		}
	}
	c.Pools = pools != 0
	return c, nil
}

// Check returns why the card cannot run kernels of essmc, or nil if it can.
func (c *Card) Check() error {
	if c.Major < LeastMajor {
		return fmt.Errorf("%v has compute capability %d.%d: %d.0 or newer is needed (Ampere, of 2020)", c, c.Major, c.Minor,
			LeastMajor)
	}
	if !c.Pools {
		return fmt.Errorf("%v has no memory pools in this mode: virtual machines may bar them", c)
	}
	return nil
}

// FreeMemory returns the free memory of a device in bytes. If the process has no context, it creates one for the
// duration of the call. Afterwards the thread has no current context.
func FreeMemory(d Driver, device Device) (free uint64, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the context of the thread has changed, so the thread ends with the goroutine
		var c Context
		if c, err = d.RetainContext(device); err != nil {
			return
		}
		defer func() { err = errors.Join(err, d.ReleaseContext(device)) }()
		if err = d.SetContext(c); err != nil {
			return
		}
		free, _, err = d.MemoryInfo()
	}()
	<-done
	return free, err
}
