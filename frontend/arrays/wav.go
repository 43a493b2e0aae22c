package arrays

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// Limits on a WAV file.
const (
	maxChannels = 1 << 10
	maxRate     = 1 << 24
	maxChunks   = 1 << 12
)

// The sample formats of the fmt chunk.
const (
	wavPCM        = 1
	wavFloat      = 3
	wavExtensible = 0xfffe
)

// wavFormat is the fmt chunk.
type wavFormat struct {
	kind, channels, bits, align int
	rate                        int
}

// ReadWav reads a RIFF WAVE file of size bytes: PCM of 8, 16, 24 or 32 bits, or float of 32 or 64. Samples are float32
// (samples, channels). The most negative integer is -1, so the scale is exact. Chunks other than fmt and data are
// skipped.
func ReadWav(r io.Reader, size int64) (*Array, error) {
	f, n, err := readWavHead(r, size)
	if err != nil {
		return nil, err
	}
	return f.samples(io.LimitReader(r, n), n)
}

// WavRate returns the sampling rate in Hz of the .wav file at path. It reads no samples.
func WavRate(path string) (int, error) {
	r, err := files.Open(path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	size, err := r.Regular(path)
	if err != nil {
		return 0, err
	}
	f, _, err := readWavHead(bufio.NewReader(r), size)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return f.rate, nil
}

// readWavHead reads a file up to its samples, and returns how many bytes they have.
func readWavHead(r io.Reader, size int64) (*wavFormat, int64, error) {
	head := make([]byte, 12)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return nil, 0, errors.New("is not a RIFF WAVE file")
	}
	left := size - 12
	var f *wavFormat
	for range maxChunks {
		id, n, err := chunkHead(r, left)
		if err != nil {
			return nil, 0, err
		}
		left -= 8
		switch {
		case id == "data" && f == nil:
			return nil, 0, errors.New("expected the format (chunk fmt) before the data")
		case id == "data":
			if n > left {
				return nil, 0, fmt.Errorf("data of %d bytes announced, file holds %d: it was cut off", n, left)
			}
			return f, n, nil
		case n > left:
			return nil, 0, fmt.Errorf("chunk %q of %d bytes announced, file holds %d", id, n, left)
		case id == "fmt " && f != nil:
			return nil, 0, errors.New("two chunks fmt")
		case id == "fmt ":
			if f, err = readFormat(r, n); err != nil {
				return nil, 0, err
			}
		default:
			if _, err := io.CopyN(io.Discard, r, n); err != nil {
				return nil, 0, fmt.Errorf("chunk %q: %w", id, err)
			}
		}
		left -= n
		if n%2 == 1 && left > 0 { // chunks start at even offsets
			if _, err := io.CopyN(io.Discard, r, 1); err != nil {
				return nil, 0, err
			}
			left--
		}
	}
	return nil, 0, fmt.Errorf("more than %d chunks before the data", maxChunks)
}

func chunkHead(r io.Reader, left int64) (id string, n int64, err error) {
	var b [8]byte
	if left < 8 {
		return "", 0, errors.New("no chunk of data")
	}
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", 0, err
	}
	return string(b[:4]), int64(binary.LittleEndian.Uint32(b[4:])), nil
}

func readFormat(r io.Reader, n int64) (*wavFormat, error) {
	if n < 16 || n > 1<<10 {
		return nil, fmt.Errorf("chunk fmt of %d bytes, expected 16 to 1024", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	u16 := func(i int) int { return int(binary.LittleEndian.Uint16(b[i:])) }
	f := &wavFormat{kind: u16(0), channels: u16(2), rate: int(int32(binary.LittleEndian.Uint32(b[4:]))), align: u16(12),
		bits: u16(14)}
	if f.kind == wavExtensible && n >= 40 {
		f.kind = u16(24) // the first two bytes of the GUID of the subformat
	}
	known := f.kind == wavPCM && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32) || f.kind == wavFloat &&
		(f.bits == 32 || f.bits == 64)
	switch {
	case !known:
		return nil, fmt.Errorf(
			"sample format %d of %d bits, expected PCM (1) of 8, 16, 24 or 32 bits or float (3) of 32 or 64", f.kind,
			f.bits)
	case f.channels < 1 || f.channels > maxChannels:
		return nil, fmt.Errorf("%d channels, expected 1 to %d", f.channels, maxChannels)
	case f.rate < 1 || f.rate > maxRate:
		return nil, fmt.Errorf("sampling rate %d, expected 1 to %d", f.rate, maxRate)
	case f.align != f.channels*f.bits/8:
		return nil, fmt.Errorf("frames of %d bytes, expected %d channels of %d bits", f.align, f.channels, f.bits)
	}
	return f, nil
}

// samples reads n bytes of data.
func (f *wavFormat) samples(r io.Reader, n int64) (*Array, error) {
	if n%int64(f.align) != 0 {
		return nil, fmt.Errorf("data of %d bytes is not a whole number of frames of %d bytes", n, f.align)
	}
	frames := int(n / int64(f.align))
	t := tensor.New(tensor.Float32, frames, f.channels)
	dst := tensor.Data[float32](t)
	width := f.bits / 8
	buf := make([]byte, min(n, int64(f.align)<<12))
	for len(dst) > 0 {
		part := buf[:min(len(buf), len(dst)*width)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, fmt.Errorf("reading the data: %w", err)
		}
		for ; len(part) > 0; part, dst = part[width:], dst[1:] {
			dst[0] = f.sample(part)
		}
	}
	return &Array{Tensor: t, Rate: f.rate}, nil
}

// sample decodes one number.
func (f *wavFormat) sample(b []byte) float32 {
	switch {
	case f.kind == wavFloat && f.bits == 32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case f.kind == wavFloat:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case f.bits == 8:
		return (float32(b[0]) - 128) / 128
	case f.bits == 16:
		return float32(int16(binary.LittleEndian.Uint16(b))) / (1 << 15)
	case f.bits == 24:
		return float32(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)>>8) / (1 << 23)
	}
	return float32(float64(int32(binary.LittleEndian.Uint32(b))) / (1 << 31))
}
