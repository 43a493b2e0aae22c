package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/serve/queue"
)

// fault is the kind of an error, with its codes in the protocols.
type fault struct {
	name   string // in metrics and the access log
	status int
	code   codes.Code
}

var (
	invalid     = &fault{"invalid", http.StatusBadRequest, codes.InvalidArgument}
	notFound    = &fault{"not_found", http.StatusNotFound, codes.NotFound}
	conflict    = &fault{"conflict", http.StatusConflict, codes.FailedPrecondition}
	tooLarge    = &fault{"too_large", http.StatusRequestEntityTooLarge, codes.ResourceExhausted}
	full        = &fault{"full", http.StatusTooManyRequests, codes.ResourceExhausted}
	unavailable = &fault{"unavailable", http.StatusServiceUnavailable, codes.Unavailable}
	late        = &fault{"deadline", http.StatusGatewayTimeout, codes.DeadlineExceeded}
	canceled    = &fault{"canceled", 499, codes.Canceled}
	unsupported = &fault{"unsupported", http.StatusNotImplemented, codes.Unimplemented}
	forbidden   = &fault{"forbidden", http.StatusForbidden, codes.PermissionDenied}
	internal    = &fault{"internal", http.StatusInternalServerError, codes.Internal}
)

// Error is an error with its kind.
type Error struct {
	fault *fault
	msg   string
}

func (e *Error) Error() string { return e.msg }

func (f *fault) errorf(format string, args ...any) *Error {
	return &Error{f, fmt.Errorf(format, args...).Error()}
}

// errorOf finds the kind of an error.
func errorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	f := internal
	var node *runtime.NodeError
	switch {
	case errors.Is(err, queue.ErrFull):
		f = full
	case errors.Is(err, queue.ErrClosed), errors.Is(err, runtime.ErrClosed):
		f = unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return late.errorf("deadline exceeded before the answer was computed")
	case errors.Is(err, context.Canceled):
		f = canceled
	case errors.Is(err, runtime.ErrMemory):
		f = tooLarge
	case errors.Is(err, runtime.ErrInput), errors.Is(err, runtime.ErrOption), errors.Is(err, runtime.ErrSnapshot):
		f = invalid
	case errors.Is(err, runtime.ErrBusy):
		f = conflict
	case errors.Is(err, runtime.ErrStream):
		f = unsupported
	case errors.As(err, &node) && !errors.Is(err, runtime.ErrInternal): // an operator refuses these numbers
		f = invalid
	}
	return &Error{f, err.Error()}
}
