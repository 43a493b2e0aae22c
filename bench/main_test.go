package main

import (
	"path/filepath"
	"testing"
)

func TestModuleRoot(t *testing.T) {
	root, err := moduleRoot() // the tests run in a folder below the root
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Abs("..")
	if err != nil || root != want {
		t.Errorf("found %q, expected %q, %v", root, want, err)
	}
	t.Chdir(t.TempDir())
	if root, err := moduleRoot(); err == nil {
		t.Errorf("outside of the module: %q", root)
	}
}
