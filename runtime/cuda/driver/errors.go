package driver

import (
	"errors"
	"fmt"
)

// Code is a result of the driver's API (CUresult).
type Code int32

// The results that the backend distinguishes.
const (
	Success            Code = 0
	InvalidValue       Code = 1
	OutOfMemory        Code = 2
	NotInitialized     Code = 3
	Deinitialized      Code = 4
	StubLibrary        Code = 34
	NoDevice           Code = 100
	InvalidDevice      Code = 101
	InvalidImage       Code = 200
	InvalidContext     Code = 201
	NoBinary           Code = 209 // for this device
	InvalidPTX         Code = 218
	UnsupportedPTX     Code = 222 // newer than the driver
	InvalidHandle      Code = 400
	NotFound           Code = 500
	NotReady           Code = 600
	IllegalAddress     Code = 700
	LaunchResources    Code = 701
	LaunchTimeout      Code = 702
	AssertionFailed    Code = 710
	HardwareStack      Code = 714
	IllegalInstruction Code = 715
	MisalignedAddress  Code = 716
	InvalidSpace       Code = 717
	InvalidPC          Code = 718
	LaunchFailed       Code = 719
	NotPermitted       Code = 800
	NotSupported       Code = 801
	DriverMismatch     Code = 803
	DeviceUnavailable  Code = 46
	Unknown            Code = 999
)

var names = map[Code]string{
	InvalidValue: "invalid value", OutOfMemory: "out of memory", NotInitialized: "not initialized",
	Deinitialized: "shut down", StubLibrary: "the library is a stub for linking", NoDevice: "no device",
	InvalidDevice: "invalid device", InvalidImage: "invalid module", InvalidContext: "invalid context",
	NoBinary: "no code for this device", InvalidPTX: "invalid PTX", UnsupportedPTX: "PTX newer than the driver",
	InvalidHandle: "invalid handle", NotFound: "not found", NotReady: "not ready",
	IllegalAddress: "illegal address", LaunchResources: "too many resources asked for a launch",
	LaunchTimeout: "launch timed out", AssertionFailed: "assertion failed", HardwareStack: "stack error",
	IllegalInstruction: "illegal instruction", MisalignedAddress: "misaligned address",
	InvalidSpace: "address of another space", InvalidPC: "invalid program counter", LaunchFailed: "launch failed",
	NotPermitted: "not permitted", NotSupported: "not supported",
	DriverMismatch: "driver and library are of different versions", DeviceUnavailable: "device is in use or lost",
	Unknown: "unknown error",
}

func (c Code) String() string {
	if s := names[c]; s != "" {
		return s
	}
	return fmt.Sprintf("error %d", int32(c))
}

// Known reports whether c is one of the codes above.
func (c Code) Known() bool { return c == Success || names[c] != "" }

// Error is the failure of a call.
type Error struct {
	Call string // as the driver's API names it: "cuLaunchKernel"
	Code Code
	// Detail has more information from the driver or the emulator; it may be empty.
	Detail string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v (CUDA error %d)", e.Call, e.Code, int32(e.Code))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Sticky reports whether err leaves the context of the device unusable, so that each later call of the process fails
// too.
func Sticky(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case IllegalAddress, LaunchTimeout, AssertionFailed, HardwareStack, IllegalInstruction, MisalignedAddress, InvalidSpace,
		InvalidPC, LaunchFailed, DeviceUnavailable, Deinitialized, Unknown:
		return true
	}
	return false
}

// Is reports whether err is an Error of the given code.
func Is(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}
