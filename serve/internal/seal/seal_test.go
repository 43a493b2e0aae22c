package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Unix(1_700_000_000, 0)

func sample() State {
	return State{Sequence: [16]byte{1, 2}, Number: 3, Expires: now.Add(time.Hour), Model: "m", Version: "7",
		Snapshot: []byte("the past of a sequence")}
}

func line(id string, fill byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32)) + "\n"
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSeal(t *testing.T) {
	k, err := New()
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	b := k.Seal(want)
	if bytes.Contains(b, want.Snapshot[:8]) {
		t.Error("the snapshot can be read")
	}
	got, err := k.Open(b, now)
	if err != nil {
		t.Fatal(err)
	}
	if got.Sequence != want.Sequence || got.Number != want.Number || !got.Expires.Equal(want.Expires) ||
		got.Model != want.Model || got.Version != want.Version || !bytes.Equal(got.Snapshot, want.Snapshot) {
		t.Errorf("%+v became %+v", want, got)
	}
	if bytes.Equal(b, k.Seal(want)) {
		t.Error("two seals are equal: a nonce was used twice")
	}
	if _, err := k.Open(b, want.Expires.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Error("expired:", err)
	}
	other, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(b, now); !errors.Is(err, ErrForeign) {
		t.Error("of another process:", err)
	}
	for i := range b { // every byte is authenticated
		changed := bytes.Clone(b)
		changed[i] ^= 1
		if _, err := k.Open(changed, now); err == nil {
			t.Errorf("byte %d was changed", i)
		}
		if _, err := k.Open(b[:i], now); err == nil {
			t.Errorf("%d bytes are a state", i)
		}
	}
}

// A new key seals, the old one still opens, and what was removed no longer does.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, "# keys\n\n", line("old", 1))
	k, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	first := k.Seal(sample())
	write(t, path, line("new", 2), line("old", 1))
	if err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	second := k.Seal(sample())
	if !bytes.Contains(second, []byte("new")) || strings.Join(k.IDs(), " ") != "new old" {
		t.Errorf("keys %q sealed %q", k.IDs(), second[:10])
	}
	for _, b := range [][]byte{first, second} {
		if _, err := k.Open(b, now); err != nil {
			t.Error(err)
		}
	}
	write(t, path, line("new", 2))
	if err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(first, now); !errors.Is(err, ErrForeign) {
		t.Error("of a key that was removed:", err)
	}
	write(t, path, "new secret\n")
	if err := k.Reload(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error("a bad file:", err)
	}
	if _, err := k.Open(second, now); err != nil {
		t.Error("after a bad file:", err)
	}
	for _, bad := range [][]string{{""}, {line("a", 1), line("a", 2)}, {"a " + "AAAA"}, {line(strings.Repeat("a", 65), 1)}} {
		write(t, path, bad...)
		if _, err := Open(path); err == nil {
			t.Errorf("%q are keys", bad)
		}
	}
}
