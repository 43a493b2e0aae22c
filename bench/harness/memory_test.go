package main

import (
	"context"
	"strings"
	"testing"
)

func TestGrow(t *testing.T) {
	if _, err := resident("VmHWM"); err != nil {
		t.Skip("the system does not say what is resident: ", err)
	}
	e := &env{work: t.TempDir()}
	m, err := newModel(e, "smnist")
	if err != nil {
		t.Fatal(err)
	}
	_, file, err := m.input(1, 2000)
	if err != nil {
		t.Fatal(err)
	}
	planned, g, err := m.grow(context.Background(), file)
	if err != nil || planned <= 0 || g.loaded <= 0 || g.run < planned/2 {
		t.Errorf("planned %d, grown by %+v, %v", planned, g, err)
	}
	if _, _, err := m.grow(context.Background(), "nothing.npy"); err == nil ||
		!strings.Contains(err.Error(), "nothing.npy") {
		t.Errorf("an input that is not there: %v", err)
	}
	if _, err := resident("VmNothing"); err == nil {
		t.Error("a number that the system does not know was found")
	}
}
