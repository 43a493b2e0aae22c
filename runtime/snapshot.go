package runtime

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// A snapshot, all numbers little-endian:
//
//	magic     8 bytes: 0x89 "ESSS" 0x0D 0x0A 0x1A
//	version   4; stays here forever, as the magic does
//	length    8, of the whole snapshot
//	model     32, the model's hash
//	backend   text (2 bytes of length, then UTF-8)
//	variant   text
//	batch     4
//	steps     8, of time that the stream has seen
//	states    4, then for each: name (text), element type (1), rank (1), dimensions (8 each), length of the data (8)
//	data      of the states in their order
//	checksum  32, SHA-256 of everything before it
const (
	snapshotMagic   = "\x89ESSS\r\n\x1a"
	snapshotVersion = 1
	snapshotHead    = 8 + 4 + 8

	// mostSteps is far more than any stream sees: 285 years of a million steps a second. Counts behind it do not
	// overflow.
	mostSteps = 1 << 53
)

// SnapshotInfo describes a snapshot.
type SnapshotInfo struct {
	Model   [sha256.Size]byte // Model.Hash of its model, or Set.Hash if the content of its set was replaced
	Backend string            // the backend that computed the state
	// the backend's kernels: the same ones continue bit by bit, others to tolerance; may be empty
	Variant string
	Batch   int   // number of samples
	Steps   int64 // number of steps of time
	States  []SnapshotState
}

// SnapshotState is one state in a snapshot.
type SnapshotState struct {
	Name  string
	DType tensor.DType
	Shape []int
}

func (s SnapshotState) String() string {
	return fmt.Sprintf("%s %v%s", s.Name, s.DType, tensor.ShapeString(s.Shape))
}

// IsSnapshot reports whether a file that begins with head is a snapshot.
func IsSnapshot(head []byte) bool { return bytes.HasPrefix(head, []byte(snapshotMagic)) }

// Snapshot returns the stream's state as bytes. A stream of the same model can continue from them, also in another
// process or on another machine. The snapshot is a few hundred bytes larger than the state. The first snapshot of a
// model reads all weights, for their hash.
func (s *Stream) Snapshot() ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	info, err := s.info()
	if err != nil {
		return nil, err
	}
	states, err := s.past.read()
	if err != nil {
		return nil, err
	}
	b := []byte(snapshotMagic)
	b = binary.LittleEndian.AppendUint32(b, snapshotVersion)
	b = binary.LittleEndian.AppendUint64(b, 0) // the length, below
	b = append(b, info.Model[:]...)
	text := func(t string) {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(t)))
		b = append(b, t...)
	}
	text(info.Backend)
	text(info.Variant)
	b = binary.LittleEndian.AppendUint32(b, uint32(info.Batch))
	b = binary.LittleEndian.AppendUint64(b, uint64(info.Steps))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(info.States)))
	for _, st := range info.States {
		text(st.Name)
		b = append(b, byte(st.DType), byte(len(st.Shape)))
		for _, n := range st.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(st.bytes()))
	}
	b = append(b, states...)
	binary.LittleEndian.PutUint64(b[12:], uint64(len(b)+sha256.Size))
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// bytes returns the size of the state. tensor.Size has checked its shape.
func (s SnapshotState) bytes() int {
	n, _ := tensor.Size(s.Shape)
	return tensor.ByteSize(s.DType, n)
}

// info returns the SnapshotInfo of a snapshot of the stream.
func (s *Stream) info() (*SnapshotInfo, error) {
	sum, err := s.p.of.hash()
	if err != nil {
		return nil, err
	}
	info := &SnapshotInfo{Model: sum, Backend: s.m.backend.Name(), Variant: variant(s.m.backend), Batch: s.batch,
		Steps: s.Steps()}
	for i, t := range s.stateType {
		shape, err := s.stateShape(i, s.batch)
		if err != nil {
			return nil, err
		}
		st := SnapshotState{Name: s.states[i].Name, DType: t.Elem, Shape: shape}
		if len(st.Name) > math.MaxUint16 || len(shape) > math.MaxUint8 {
			return nil, fmt.Errorf("state %q cannot be written to a snapshot", st.Name)
		}
		info.States = append(info.States, st)
	}
	return info, nil
}

func variant(b Backend) string {
	if v, ok := b.(Variant); ok {
		return v.Variant()
	}
	return ""
}

// Restore sets the stream to the state in the snapshot. If backend and kernels are those in its SnapshotInfo, the
// stream continues bit by bit; otherwise to tolerance. Restore refuses a snapshot of another model or number of
// samples, a damaged one, and one of a newer format. It returns a *SnapshotError then, and the stream does not change.
func (s *Stream) Restore(snapshot []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	found, data, err := parseSnapshot(snapshot)
	if err != nil {
		return err
	}
	want, err := s.info()
	if err != nil {
		return err
	}
	if found.Model != want.Model {
		have, want := hex.EncodeToString(found.Model[:]), hex.EncodeToString(want.Model[:])
		return &SnapshotError{Have: have, Want: want,
			Msg: fmt.Sprintf("is of the model with hash %s, this model's is %s", have, want)}
	}
	if found.Batch != want.Batch {
		return &SnapshotError{Msg: fmt.Sprintf("is of a stream of %d samples, this one has %d", found.Batch,
			want.Batch)}
	}
	if len(found.States) != len(want.States) {
		return &SnapshotError{Msg: fmt.Sprintf("has %d states, this model %d", len(found.States), len(want.States))}
	}
	for i, st := range want.States {
		if f := found.States[i]; f.Name != st.Name || f.DType != st.DType || !slices.Equal(f.Shape, st.Shape) {
			return &SnapshotError{Msg: fmt.Sprintf("state %d is %v, this model's is %v", i, f, st)}
		}
	}
	if found.Backend != want.Backend || found.Variant != want.Variant {
		s.m.config.Logger.Info("snapshot was made with other kernels: it continues to tolerance, not bit by bit",
			"made", found.Backend+" "+found.Variant, "here", want.Backend+" "+want.Variant)
	}
	if err := s.past.write(data); err != nil {
		return err
	}
	s.steps.Store(found.Steps)
	return nil
}

// InspectSnapshot returns the description of a snapshot, after checking its checksum and structure.
func InspectSnapshot(snapshot []byte) (*SnapshotInfo, error) {
	info, _, err := parseSnapshot(snapshot)
	return info, err
}

// parseSnapshot decodes a snapshot into its description and the data of the states. It allocates memory in proportion
// to the snapshot's length, not to sizes in it.
func parseSnapshot(b []byte) (*SnapshotInfo, []byte, error) {
	fail := func(format string, args ...any) (*SnapshotInfo, []byte, error) {
		return nil, nil, &SnapshotError{Msg: fmt.Sprintf(format, args...)}
	}
	if !bytes.HasPrefix(b, []byte(snapshotMagic)) {
		return fail("expected the signature of a snapshot, found other data")
	}
	if len(b) < snapshotHead+sha256.Size {
		return fail("is truncated: found %d bytes", len(b))
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != snapshotVersion {
		return nil, nil, &SnapshotError{Version: v,
			Msg: fmt.Sprintf("has format %d, this program reads format %d", v, snapshotVersion)}
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != uint64(len(b)) {
		return fail("is truncated or has extra bytes: expected %d bytes, found %d", n, len(b))
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if have := sha256.Sum256(body); !bytes.Equal(have[:], sum) {
		return fail("is damaged: its checksum does not match")
	}
	r := snapshotReader{rest: body[snapshotHead:]}
	info := &SnapshotInfo{}
	copy(info.Model[:], r.take(sha256.Size))
	info.Backend, info.Variant = r.text(), r.text()
	batch, steps, states := r.number(4), r.number(8), r.number(4)
	if steps > mostSteps || batch < 1 || batch > math.MaxInt32 {
		return fail("expected at least 1 sample and at most %d steps, found %d and %d", int64(mostSteps), batch, steps)
	}
	info.Batch, info.Steps = int(batch), int64(steps)
	var total uint64
	for i := uint64(0); i < states && !r.short; i++ {
		st := SnapshotState{Name: r.text(), DType: tensor.DType(r.number(1))}
		for range r.number(1) {
			n := r.number(8)
			if n > math.MaxInt32 {
				return fail("state %q has a dimension of %d", st.Name, n)
			}
			if r.short {
				break
			}
			st.Shape = append(st.Shape, int(n))
		}
		length := r.number(8)
		if r.short {
			break
		}
		if _, err := tensor.Size(st.Shape); err != nil || !st.DType.Valid() || uint64(st.bytes()) != length {
			return fail("state %d is %v, which does not have %d bytes", i, st, length)
		}
		if total += length; total > uint64(len(r.rest)) {
			return fail("the states are larger than the snapshot")
		}
		info.States = append(info.States, st)
	}
	if r.short || total != uint64(len(r.rest)) {
		return fail("its parts do not match its size")
	}
	return info, r.rest, nil
}

// snapshotReader reads fields. short is set when there are too few bytes.
type snapshotReader struct {
	rest  []byte
	short bool
}

func (r *snapshotReader) take(n int) []byte {
	if n > len(r.rest) {
		r.short, n = true, 0
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// number reads an unsigned number of size bytes.
func (r *snapshotReader) number(size int) uint64 {
	var b [8]byte
	copy(b[:], r.take(size))
	return binary.LittleEndian.Uint64(b[:])
}

func (r *snapshotReader) text() string { return string(r.take(int(r.number(2)))) }
