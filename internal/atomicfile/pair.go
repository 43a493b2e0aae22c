package atomicfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/internal/files"
)

// Data is the content of a file of data beside another file, which names it.
type Data struct {
	// Name is the file's name without folders. It contains the first digits of the content's hash, so that files
	// with the same name have the same content.
	Name string
	// Sum is the hash of the content, in hexadecimal.
	Sum string
	// Size is the length of the content in bytes.
	Size int64

	stem, ext string
	fill      func(io.Writer) error
}

// sumDigits is how many digits of the hash a name holds.
const sumDigits = 16

// NewData returns the data that fill writes, which must be the same in each call. Its name is name with the hash
// before the extension, as in weights-0123456789abcdef.bin. The caller passes the hash function, h, so that programs
// that write no data link none.
func NewData(name string, h hash.Hash, fill func(io.Writer) error) (*Data, error) {
	n := counter(0)
	if err := fill(io.MultiWriter(h, &n)); err != nil {
		return nil, err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	return &Data{stem + "-" + sum[:sumDigits] + ext, sum, int64(n), stem, ext, fill}, nil
}

// counter is a writer that counts bytes.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// WritePair writes the data into the folder of path, unless it is empty, and then path, which must name it. A reader
// sees the old pair or the new one at any time, since the old file names the old data, and the new file the new one.
// After an error only the old pair exists.
//
// Then it removes data of the same name with other hashes, if the old file at path named it and no other file of the
// folder with the extension of path does.
func WritePair(path string, d *Data, fill func(io.Writer) error) error {
	old := readSmall(path)
	data := filepath.Join(filepath.Dir(path), d.Name)
	_, missing := files.Stat(data)
	if d.Size > 0 {
		if err := Write(data, d.fill); err != nil {
			return err
		}
	}
	if err := Write(path, fill); err != nil {
		if d.Size > 0 && errors.Is(missing, fs.ErrNotExist) {
			_ = files.Remove(data) // nothing names it
		}
		return err
	}
	if old != nil {
		d.removeOld(path, old)
	}
	return nil
}

// maxNaming bounds the files that are searched for names of data. Those that name data are small.
const maxNaming = 64 << 20

// readSmall returns the content of a regular file of at most maxNaming bytes; nil if there is none.
func readSmall(path string) []byte {
	st, err := files.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxNaming {
		return nil
	}
	b, err := files.ReadFile(path)
	if err != nil {
		return nil
	}
	return b
}

// removeOld removes data that only the old content of path named. What cannot be read or removed stays.
func (d *Data) removeOld(path string, old []byte) {
	dir := filepath.Dir(path)
	entries, err := files.ReadDir(dir)
	if err != nil {
		return
	}
	var unused []string
	for _, e := range entries {
		name := e.Name()
		if name != d.Name && e.Type().IsRegular() && d.alike(name) && bytes.Contains(old, []byte(name)) {
			unused = append(unused, name)
		}
	}
	if len(unused) == 0 {
		return
	}
	used := map[string]bool{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != filepath.Ext(path) || e.IsDir() {
			continue
		}
		b := readSmall(filepath.Join(dir, e.Name()))
		if b == nil { // it may name any of them
			return
		}
		for _, name := range unused {
			used[name] = used[name] || bytes.Contains(b, []byte(name))
		}
	}
	for _, name := range unused {
		if !used[name] {
			_ = files.Remove(filepath.Join(dir, name)) // the pair is written; a file too many does no harm
		}
	}
}

// alike reports whether name is the name of the data with another hash.
func (d *Data) alike(name string) bool {
	sum, ok := strings.CutPrefix(name, d.stem+"-")
	if !ok {
		return false
	}
	sum, ok = strings.CutSuffix(sum, d.ext)
	return ok && len(sum) == sumDigits && strings.Trim(sum, "0123456789abcdef") == ""
}
