package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/driver/libcuda"
	"github.com/essmc/essmc/runtime/ref"
)

// device is a flag for the backend that runs a model: "cpu", "ref", or "cuda", with a number for another card than the
// first: "cuda:1".
type device struct{ value string }

const (
	deviceCPU  = "cpu"
	deviceRef  = "ref"
	deviceCUDA = "cuda"
)

var devices = []string{deviceCPU, deviceRef, deviceCUDA}

func (d *device) String() string { return d.value }
func (d *device) Type() string   { return "cpu|ref|cuda[:N]" }
func (d *device) Set(s string) error {
	name, number, numbered := strings.Cut(s, ":")
	switch _, err := strconv.ParseUint(number, 10, 16); {
	case numbered && name == deviceCUDA && err == nil:
	case numbered && name == deviceCUDA:
		return fmt.Errorf("expected cuda:N, where N is the number of a card from 0 on; essmc devices lists them")
	case s != deviceCPU && s != deviceRef && s != deviceCUDA:
		meant := didYouMean(s, devices)
		if other, ok := otherDevices[strings.ToLower(name)]; ok {
			if meant = fmt.Sprintf(", did you mean %s?", other); other == deviceCUDA && numbered {
				meant = fmt.Sprintf(", did you mean %s:%s?", other, number)
			}
		}
		return fmt.Errorf("expected one of cpu, ref, cuda, cuda:N%s", meant)
	}
	d.value = s
	return nil
}

// otherDevices are the names that other programs have for devices.
var otherDevices = map[string]string{"gpu": deviceCUDA, "nvidia": deviceCUDA, "cudnn": deviceCUDA,
	"processor": deviceCPU, "reference": deviceRef, "interpreter": deviceRef}

// kind returns the device without its number.
func (d *device) kind() string {
	kind, _, _ := strings.Cut(d.value, ":")
	return kind
}

// card returns the number of the card.
func (d *device) card() int {
	_, number, _ := strings.Cut(d.value, ":")
	n, _ := strconv.Atoi(number) // digits or nothing: Set
	return n
}

// deviceVar adds a flag for a device, by default the CPU.
func deviceVar(cmd *cobra.Command, d *device, name, usage string) {
	d.value = deviceCPU
	cmd.Flags().Var(d, name, usage)
	complete(cmd, name, cobra.FixedCompletions(devices, cobra.ShellCompDirectiveNoFileComp))
}

const (
	deviceUsage   = "cpu; cuda, an NVIDIA card; or ref, the reference interpreter, which is slow and exact"
	fallbackUsage = "with --device cuda: who computes operators that have no kernel there; none refuses such models"
)

// fallbackVar adds the flag for the operators that a card has no kernels for.
func fallbackVar(cmd *cobra.Command, c *choice) {
	choiceVar(cmd, c, "fallback", fallbackUsage, "none", deviceCPU)
}

// openDriver opens the driver of NVIDIA cards. Tests set another one.
var openDriver = libcuda.Open

// backend returns the backend of a device. costs are options of the cpu backend.
func (d *device) backend(fallback string, costs func() []cpu.Option) (runtime.Backend, error) {
	switch d.kind() {
	case deviceRef:
		return ref.New(), nil
	case deviceCPU:
		return cpu.New(costs()...), nil
	}
	drv, err := openDriver()
	if err != nil {
		return nil, fmt.Errorf("--device %s: %w", d.value, err)
	}
	o := cuda.Options{Device: d.card()}
	if fallback == deviceCPU {
		o.Fallback = fallback
	}
	b, err := cuda.New(drv, o)
	if err != nil {
		return nil, fmt.Errorf("--device %s: %w", d.value, err)
	}
	return b, nil
}

// found describes the cards of the driver, or says why there are none. An error about one card stands in its place.
func found(drv driver.Driver) ([]foundCard, error) {
	n, err := drv.DeviceCount()
	if err != nil {
		return nil, err
	}
	var list []foundCard
	for i := range n {
		c, err := driver.Describe(drv, driver.Device(i))
		f := foundCard{Card: c, refused: err}
		if err == nil {
			f.refused = c.Check()
		}
		if f.refused == nil {
			f.free, f.refused = driver.FreeMemory(drv, c.Device)
		}
		list = append(list, f)
	}
	return list, nil
}

type foundCard struct {
	*driver.Card
	free    uint64
	refused error // why it runs no models; nil: it does
}
