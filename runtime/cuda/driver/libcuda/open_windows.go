//go:build cuda && windows && amd64

package libcuda

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// places are the names to try for the library, only in the system's folder.
var places = []string{"nvcuda.dll"}

func load(places []string) (handle uintptr, path string, err error) {
	h, err := windows.LoadLibraryEx(places[0], 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", places[0], err)
	}
	return uintptr(h), places[0], nil
}

func find(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
