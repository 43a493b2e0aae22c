package runtime_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// mended is a snapshot body with the length and the checksum that it should have.
func mended(b []byte) []byte {
	b = append([]byte{}, b...)
	binary.LittleEndian.PutUint64(b[12:], uint64(len(b)+sha256.Size))
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// taken is a snapshot of a stream of m after some steps.
func taken(t testing.TB, m *runtime.Model, batch int) []byte {
	t.Helper()
	s := stream(t, m, batch)
	if err := s.Step(context.Background(), data{"input": noise(1, batch, 3, 2)}, data{}); err != nil {
		t.Fatal(err)
	}
	b, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInspectSnapshot(t *testing.T) {
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New()})
	b := taken(t, m, 2)
	info, err := runtime.InspectSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := m.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if info.Model != hash || info.Backend != "cpu" || info.Variant != cpu.Kernels() || info.Batch != 2 ||
		info.Steps != 3 || len(info.States) != 4 {
		t.Errorf("found %+v", info)
	}
	if want := "layers.0.state float64[2,16]"; info.States[0].String() != want {
		t.Errorf("expected %s, found %v", want, info.States[0])
	}
	if again := taken(t, m, 2); !bytes.Equal(b, again) {
		t.Error("the same stream gives other bytes")
	}
}

// The hash is that of what a model computes: not of its name, nor of how it came to be.
func TestHash(t *testing.T) {
	hash := func(change func(c *ir.Graph)) [sha256.Size]byte {
		g := network(t, small("pool"))
		change(g)
		h, err := model(t, g, runtime.Options{Backend: cpu.New()}).Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	one := hash(func(*ir.Graph) {})
	if hash(func(g *ir.Graph) { g.Name, g.Doc, g.History, g.Meta["essmc.source"] = "other", "doc", nil, "x" }) != one {
		t.Error("a name changes the hash")
	}
	if hash(func(g *ir.Graph) { bump(g) }) == one {
		t.Error("another weight leaves the hash as it is")
	}
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New()})
	m.Close()
	if _, err := m.Hash(); !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("found %v", err)
	}
}

// What cannot be restored is refused with what is wrong, and the stream stays where it is.
func TestRestoreRefuses(t *testing.T) {
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New()})
	good := taken(t, m, 1)
	c := small("pool")
	c.Layer.DState = 4
	other := taken(t, model(t, network(t, c), runtime.Options{Backend: cpu.New()}), 1)
	newer := append([]byte{}, good...)
	newer[8]++
	claims := append([]byte{}, good...)
	binary.LittleEndian.PutUint64(claims[12:], 1<<60)
	body := good[:len(good)-sha256.Size]
	info, err := runtime.InspectSnapshot(good)
	if err != nil {
		t.Fatal(err)
	}
	ages := append([]byte{}, body...)
	binary.LittleEndian.PutUint64(ages[8+4+8+32+2+len(info.Backend)+2+len(info.Variant)+4:], 1<<62)
	s := stream(t, m, 1)
	before, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for want, b := range map[string][]byte{
		"snapshot: expected the signature":                                                                         []byte("no snapshot at all"),
		"snapshot: is truncated: found 20 bytes":                                                                   good[:20],
		"snapshot: is truncated or has extra bytes":                                                                good[:len(good)-1],
		"snapshot: is truncated or has extra bytes: expec":                                                         append(append([]byte{}, good...), 0),
		"snapshot: is truncated or has extra bytes: expected 1152921504606846976":                                  claims,
		"snapshot: has format 2, this program reads format 1":                                                      newer,
		"snapshot: is of the model with hash ":                                                                     other,
		"snapshot: is of a stream of 2 samples, this one has 1":                                                    taken(t, m, 2),
		"snapshot: the states are larger than the snapshot":                                                        mended(body[:len(body)-8]),
		"snapshot: its parts do not match its size":                                                                mended(body[:90]),
		"snapshot: expected at least 1 sample and at most 9007199254740992 steps, found 1 and 4611686018427387904": mended(ages),
	} {
		err := s.Restore(b)
		if !errors.Is(err, runtime.ErrSnapshot) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("expected %q, found %v", want, err)
		}
	}
	var se *runtime.SnapshotError
	if err := s.Restore(other); !errors.As(err, &se) || len(se.Have) != 64 || len(se.Want) != 64 || se.Have == se.Want ||
		!strings.Contains(err.Error(), se.Have) || !strings.Contains(err.Error(), se.Want) {
		t.Errorf("another model: %v", err)
	}
	if err := s.Restore(newer); !errors.As(err, &se) || se.Version != 2 {
		t.Errorf("a newer version: %v", err)
	}
	for i := range good { // every byte is under the checksum
		flipped := append([]byte{}, good...)
		flipped[i] ^= 0x40
		if err := s.Restore(flipped); !errors.Is(err, runtime.ErrSnapshot) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
	if after, err := s.Snapshot(); err != nil || !bytes.Equal(before, after) {
		t.Errorf("refused snapshots have changed the stream: %v", err)
	}
	if err := s.Restore(good); err != nil || s.Steps() != 3 {
		t.Errorf("the good one: %v", err)
	}
}

// A snapshot goes on with another backend, to tolerance.
func TestRestoreElsewhere(t *testing.T) {
	g := network(t, small("none"))
	x := noise(2, 1, 40, 2)
	fast, plain := stream(t, model(t, g, runtime.Options{Backend: cpu.New()}), 1),
		stream(t, model(t, g, runtime.Options{Backend: ref.New()}), 1)
	sequence(t, fast, cut(x, 0, 20), every(5))
	b, err := fast.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Restore(b); err != nil {
		t.Fatal(err)
	}
	want, got := sequence(t, fast, cut(x, 20, 40), every(5)), sequence(t, plain, cut(x, 20, 40), every(5))
	if d := apart(t, want, got); !(d <= 1e-5) {
		t.Errorf("%.2g apart", d)
	}
}

// FuzzRestore checks Restore to its budget and its promise: whatever the bytes are, there is a typed error and the
// stream is as it was, or the snapshot was whole.
func FuzzRestore(f *testing.F) {
	m := model(f, network(f, small("pool")), runtime.Options{Backend: cpu.New()})
	s := stream(f, m, 1)
	if err := s.Step(context.Background(), data{"input": noise(1, 1, 3, 2)}, data{}); err != nil {
		f.Fatal(err)
	}
	good, err := s.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add(good[:len(good)-32], true)
	f.Add(good[:40], true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend && len(b) >= 20 && len(b) < 1<<20 { // so that what stands behind the checksum is reached
			b = mended(b)
		}
		fresh := stream(t, m, 1)
		before, err := fresh.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		err = fresh.Restore(b)
		after, again := fresh.Snapshot()
		if again != nil {
			t.Fatal(again)
		}
		switch {
		case err == nil:
			if info, err := runtime.InspectSnapshot(b); err != nil || info.Steps != fresh.Steps() {
				t.Errorf("restored, but %v %v", info, err)
			}
		case !errors.Is(err, runtime.ErrSnapshot):
			t.Errorf("%v is no ErrSnapshot", err)
		case !bytes.Equal(before, after):
			t.Errorf("refused with %v, but the stream has changed", err)
		}
	})
}
