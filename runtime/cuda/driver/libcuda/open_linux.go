//go:build cuda && linux && (amd64 || arm64)

package libcuda

import (
	"errors"

	"github.com/ebitengine/purego"
)

// places are the paths to try for the library, in this order. The second is for Windows' Linux subsystem if its
// folder is not in the linker's list.
var places = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

func load(places []string) (handle uintptr, path string, err error) {
	var first error
	for _, p := range places {
		if handle, err = purego.Dlopen(p, purego.RTLD_NOW|purego.RTLD_GLOBAL); err == nil {
			return handle, p, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, "", first
}

func find(handle uintptr, name string) (uintptr, error) {
	a, err := purego.Dlsym(handle, name)
	if err == nil && a == 0 {
		err = errors.New("its address is 0")
	}
	return a, err
}
