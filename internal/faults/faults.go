// Package faults is for tests. It makes each operation of a call fail in turn. Its own tests are the table of
// everything that the project reads, writes and computes within a budget; the tests of cmd/essmc/command add what only
// the command does.
//
// It imports internal/fault and the standard library. Operations are counted per process, so tests that use it must
// not run in parallel with others.
package faults

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/essmc/essmc/internal/fault"
)

// Error is the error of operations that fail.
var Error = errors.New("a planted fault")

// Mode is a way in which operations fail.
type Mode struct {
	Name string
	// Ops are the operations that fail; nil: all.
	Ops []fault.Op
	// Some returns how much of n is done, and the error after that.
	Some func(n int64) (int64, error)
	// On is set if operations go on to fail after the first one, also others.
	On bool
	// Whole is set if the call must succeed all the same.
	Whole bool
}

func none(int64) (int64, error)   { return 0, Error }
func half(n int64) (int64, error) { return n / 2, Error }

// Changing are the operations that change stored files.
var Changing = []fault.Op{fault.Create, fault.Write, fault.Sync, fault.Written, fault.Rename, fault.Remove, fault.Mkdir}

// Reading are the ways in which a call fails that reads.
var Reading = []Mode{
	{Name: "error", Some: none},
	{Name: "device gone", Some: none, On: true},
	{Name: "error after a part", Ops: []fault.Op{fault.Read}, Some: half},
	{Name: "part", Ops: []fault.Op{fault.Read}, Some: func(n int64) (int64, error) { return (n + 1) / 2, nil },
		Whole: true},
	{Name: "byte by byte", Ops: []fault.Op{fault.Read}, Some: func(n int64) (int64, error) { return min(n, 1), nil },
		On: true, Whole: true},
	{Name: "end", Ops: []fault.Op{fault.Read}, Some: func(int64) (int64, error) { return 0, io.EOF }},
	{Name: "end after a part", Ops: []fault.Op{fault.Read}, Some: func(n int64) (int64, error) {
		return n / 2, io.EOF
	}},
}

// Writing are the ways in which a call fails that writes.
var Writing = []Mode{
	{Name: "error", Some: none},
	{Name: "device gone", Some: none, On: true},
	{Name: "error after a part", Ops: []fault.Op{fault.Write}, Some: half},
	{Name: "disk full", Ops: []fault.Op{fault.Write, fault.Create, fault.Mkdir}, Some: half, On: true},
}

// Budgets is the way in which a call fails that takes bytes of a budget.
var Budgets = Mode{Name: "budget", Ops: []fault.Op{fault.Take}, Some: none}

// counts reports whether the mode begins with an operation. No budget refuses no bytes.
func (m Mode) counts(op fault.Op, n int64) bool {
	if m.Ops == nil || op == fault.Take && n == 0 {
		return m.Ops == nil && op != fault.Take
	}
	return slices.Contains(m.Ops, op)
}

// Count returns how many operations of f the mode may begin with.
func (m Mode) Count(f func()) int {
	n := 0
	defer fault.Set(func(op fault.Op, _ string, k int64) (int64, error) {
		if m.counts(op, k) {
			n++
		}
		return k, nil
	})()
	f()
	return n
}

// At calls f, whose operation k fails, counted from 0. It returns that operation and its path; an empty one if f had
// not so many.
func (m Mode) At(k int, f func()) (op fault.Op, path string) {
	n := 0
	defer fault.Set(func(now fault.Op, name string, size int64) (int64, error) {
		if !m.counts(now, size) {
			return size, nil
		}
		n++
		if n-1 < k || n-1 > k && !m.On {
			return size, nil
		}
		if n-1 == k {
			op, path = now, name
		}
		some, err := m.Some(size)
		return some, err
	})()
	f()
	return op, path
}

// Before calls f, and act before its operation k, counted from 0. It reports whether f had so many.
func Before(k int, act, f func()) bool {
	n := 0
	defer fault.Set(func(op fault.Op, _ string, size int64) (int64, error) {
		if n++; n-1 == k {
			act()
		}
		return size, nil
	})()
	f()
	return n > k
}

// EndAt ends the process at its operation k that changes stored files, counted from 0: before the operation, or,
// with torn, after a part of it if it writes. The process runs nothing after that.
func EndAt(k int, torn bool) {
	n, ending := 0, false
	fault.Set(func(op fault.Op, _ string, size int64) (int64, error) {
		if ending {
			end()
		}
		if !slices.Contains(Changing, op) {
			return size, nil
		}
		if n++; n-1 != k {
			return size, nil
		}
		if torn && op == fault.Write {
			ending = true
			return size / 2, Error
		}
		end()
		return 0, Error
	})
}

// end kills the process.
func end() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill() // it does not return, or the process ends below
	}
	select {}
}
