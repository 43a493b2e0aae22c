//go:build !cuda || !((linux && (amd64 || arm64)) || (windows && amd64))

package libcuda

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Open returns an error, because this program is built without the driver.
func Open() (driver.Driver, error) {
	if tagged || runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("CUDA is not supported on %s/%s: expected linux/amd64, linux/arm64 or windows/amd64",
			runtime.GOOS, runtime.GOARCH)
	}
	return nil, errors.New("this program is built without CUDA: build it with -tags cuda, as in " +
		"go install -tags cuda github.com/essmc/essmc/cmd/essmc@latest")
}
