package driver

import (
	"strings"
	"testing"
)

// machine is a driver with only the methods that Start calls.
type machine struct {
	Driver
	init      Code
	version   int
	devices   int
	attribute map[Attribute]int
}

func (m *machine) Init() error {
	if m.init != Success {
		return &Error{Call: "cuInit", Code: m.init}
	}
	return nil
}
func (m *machine) Version() (int, error)               { return m.version, nil }
func (m *machine) DeviceCount() (int, error)           { return m.devices, nil }
func (m *machine) DeviceName(Device) (string, error)   { return "Card", nil }
func (m *machine) DeviceMemory(Device) (uint64, error) { return 1 << 33, nil }
func (m *machine) DeviceAttribute(_ Device, a Attribute) (int, error) {
	if v, ok := m.attribute[a]; ok {
		return v, nil
	}
	return 0, &Error{Call: "cuDeviceGetAttribute", Code: InvalidValue}
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		m    machine
		want string // ""; no error
	}{
		{machine{version: LeastVersion, devices: 1}, ""},
		{machine{version: 13000, devices: 8}, ""},
		{machine{version: LeastVersion - 10, devices: 1}, "the driver is for CUDA 11.3: CUDA 11.4 or newer is needed, install"},
		{machine{version: LeastVersion}, "the driver finds no card: see whether nvidia-smi"},
		{machine{init: NoDevice}, "the driver finds no card: see whether nvidia-smi"},
		{machine{init: StubLibrary}, "this library is a stub"},
		{machine{init: DriverMismatch}, "the library is of another version"},
		{machine{init: Unknown}, "the driver does not start: cuInit: unknown error (CUDA error 999)"},
	} {
		err := Start(&c.m)
		if (c.want == "") != (err == nil) || err != nil && (!strings.HasPrefix(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v: %v, expected %q", c.m, err, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		attribute map[Attribute]int
		want      string
	}{
		{map[Attribute]int{ComputeMajor: 8, ComputeMinor: 0, MemoryPools: 1}, ""},
		{map[Attribute]int{ComputeMajor: 12, ComputeMinor: 1, MemoryPools: 1}, ""},
		{map[Attribute]int{ComputeMajor: 7, ComputeMinor: 5, MemoryPools: 1},
			"device 3 (Card) has compute capability 7.5: 8.0 or newer is needed (Ampere, of 2020)"},
		{map[Attribute]int{ComputeMajor: 9, ComputeMinor: 0, MemoryPools: 0},
			"device 3 (Card) has no memory pools in this mode: virtual machines may bar them"},
	} {
		card, err := Describe(&machine{attribute: c.attribute}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := card.Check(); (c.want == "") != (err == nil) || err != nil && err.Error() != c.want {
			t.Errorf("%v: %v, expected %q", c.attribute, err, c.want)
		}
	}
	if _, err := Describe(&machine{}, 3); !Is(err, InvalidValue) {
		t.Errorf("a device that the driver does not describe: %v", err)
	}
}
