package ends

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// limited is done after some checks.
type limited struct {
	context.Context
	left int
}

func (l *limited) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

var errEnough = errors.New("enough")

func watch(checks int) *Watch {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errEnough)
	return Of(&limited{ctx, checks})
}

func catch(f func()) (err error) {
	defer Catch("", &err)
	f()
	return nil
}

func TestWatch(t *testing.T) {
	var without context.Context
	if err := catch(func() { (*Watch)(nil).Step(1 << 30); (*Watch)(nil).Check() }); err != nil || Of(without) != nil {
		t.Errorf("without a context: %v", err)
	}
	w := watch(3)
	steps := 0
	err := catch(func() {
		for {
			w.Step(1)
			steps++
		}
	})
	if err != errEnough || steps < 3*every || steps > 5*every {
		t.Errorf("%v after %d steps", err, steps)
	}
	if err := func() (err error) { defer Catch("FILE", &err); watch(0).Check(); return nil }(); err == nil ||
		err.Error() != "FILE: enough" || !errors.Is(err, errEnough) {
		t.Errorf("with a name: %v", err)
	}
	defer func() {
		if v := recover(); v != "other" {
			t.Errorf("another panic: %v", v)
		}
	}()
	catch(func() { panic("other") })
}

func TestRead(t *testing.T) {
	data := make([]byte, 5*part+3)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for _, n := range []int{0, 1, part, part + 1, len(data)} {
		b := make([]byte, n)
		k, err := watch(100).ReadAt(bytes.NewReader(data), b, int64(len(data)-n))
		if k != n || err != nil && n > 0 || !bytes.Equal(b, data[len(data)-n:]) {
			t.Errorf("%d bytes: read %d, %v", n, k, err)
		}
	}
	if k, err := watch(100).ReadAt(bytes.NewReader(data), make([]byte, len(data)), 1); k != len(data)-1 || err != io.EOF {
		t.Errorf("beyond the end: %d, %v", k, err)
	}
	if err := catch(func() { _, _ = watch(2).ReadAt(bytes.NewReader(data), make([]byte, len(data)), 0) }); err != errEnough {
		t.Errorf("ReadAt: %v", err)
	}
	for _, n := range []int{0, 1, part, part + 1, len(data)} {
		s, err := watch(100).ReadString(bytes.NewReader(data), int64(len(data)-n), n)
		if err != nil || s != string(data[len(data)-n:]) {
			t.Errorf("a string of %d bytes: read %d, %v", n, len(s), err)
		}
		for _, size := range []int{0, n, len(data)} {
			if b, err := (*Watch)(nil).ReadAll(bytes.NewReader(data[:n]), size); err != nil || !bytes.Equal(b, data[:n]) {
				t.Errorf("all of %d bytes, %d expected: read %d, %v", n, size, len(b), err)
			}
		}
	}
	if s, err := watch(100).ReadString(bytes.NewReader(data), 1, len(data)); s != string(data[1:]) || err != io.EOF {
		t.Errorf("beyond the end: %d, %v", len(s), err)
	}
	if err := catch(func() { _, _ = watch(2).ReadString(bytes.NewReader(data), 0, len(data)) }); err != errEnough {
		t.Errorf("ReadString: %v", err)
	}
	if err := catch(func() { _, _ = watch(2).ReadAll(bytes.NewReader(data), len(data)) }); err != errEnough {
		t.Errorf("ReadAll: %v", err)
	}
	if b, err := watch(9).ReadAll(io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(errEnough)), 1); string(b) != "ab" || err != errEnough {
		t.Errorf("ReadAll of a reader that fails: %q, %v", b, err)
	}
	if b, err := io.ReadAll(watch(100000).Reader(bytes.NewReader(data))); err != nil || !bytes.Equal(b, data) {
		t.Errorf("Reader: %v", err)
	}
	if err := catch(func() { _, _ = io.ReadAll(watch(2).Reader(bytes.NewReader(data))) }); err != errEnough {
		t.Errorf("Reader: %v", err)
	}
}

// TestText compares with the standard library: characters of all lengths, whole and cut off, at all places near a part's
// end.
func TestText(t *testing.T) {
	for _, c := range []string{"x", "é", "€", "😀", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\x80", "\xff"} {
		for before := part - 5; before <= part+1; before++ {
			for _, after := range []string{"", "y", strings.Repeat("é", part)} {
				b := []byte(strings.Repeat("x", before) + c + after)
				if got, want := watch(100).ValidUTF8(b), utf8.Valid(b); got != want {
					t.Fatalf("%q at %d, then %d bytes: %v, expected %v", c, before, len(after), got, want)
				}
			}
		}
	}
	b := bytes.Repeat([]byte("abc"), part)
	if s := watch(100).String(b); s != string(b) {
		t.Error("String differs")
	}
	for what, f := range map[string]func(w *Watch){"ValidUTF8": func(w *Watch) { w.ValidUTF8(b) }, "String": func(w *Watch) { _ = w.String(b) }} {
		if err := catch(func() { f(watch(1)) }); err != errEnough {
			t.Errorf("%s: %v", what, err)
		}
	}
}
