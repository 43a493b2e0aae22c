// Package seal encrypts and authenticates the states of sequences that clients carry from one replica to another.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/essmc/essmc/internal/files"
)

// State is a state with what it belongs to.
type State struct {
	// Sequence is random, and the same for all states of one sequence. Number counts its answers.
	Sequence [16]byte
	Number   uint64
	Expires  time.Time // to the second
	Model    string
	Version  string
	Snapshot []byte // of a runtime.Stream
}

// A sealed state, all numbers little-endian:
//
//	magic    5 bytes: "ESST" and 1, the version
//	key      1, then the identifier of the key
//	nonce    12
//	the rest, by AES-GCM, which authenticates all of it:
//	sequence 16, number 8, expiry 8 (seconds since 1970), model and version (2 bytes of length, then text), snapshot
const magic = "ESST\x01"

var (
	// ErrExpired is the error for a state that is too old.
	ErrExpired = errors.New("state has expired")
	// ErrForeign is the error for a state that none of the keys has sealed, or that was changed.
	ErrForeign = errors.New("state was not sealed by a key of this server, or was changed")
)

// Keys seal and open states. They are safe for concurrent use.
type Keys struct {
	path string
	mu   sync.Mutex
	all  []key
}

type key struct {
	id  string
	gcm cipher.AEAD
}

// maxFile bounds the file of keys.
const maxFile = 1 << 16

// New makes keys for this process only.
func New() (*Keys, error) {
	secret := make([]byte, 32)
	rand.Read(secret)
	k, err := newKey("process-"+rand.Text()[:8], secret)
	return &Keys{all: []key{k}}, err
}

// Open reads a file of keys. It has a line "ID KEY" for each, with a name and 32 bytes in base64. The first key seals,
// and all of them open. To rotate keys, add a new one at the top, and remove the last one when the states that it
// sealed have expired.
func Open(path string) (*Keys, error) {
	k := &Keys{path: path}
	return k, k.Reload()
}

// Reload reads the file again. After an error the keys are those before.
func (k *Keys) Reload() error {
	if k.path == "" {
		return nil
	}
	f, err := files.Open(k.path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("%s: %w", k.path, err)
	}
	if len(text) > maxFile {
		return fmt.Errorf("%s: expected at most %d bytes of keys", k.path, maxFile)
	}
	all, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", k.path, err)
	}
	k.mu.Lock()
	k.all = all
	k.mu.Unlock()
	return nil
}

func parse(text string) ([]key, error) {
	var all []key
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: expected ID KEY, found %d fields", n, len(fields))
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil || len(secret) != 32 {
			return nil, fmt.Errorf("line %d: expected a key of 32 bytes in base64", n)
		}
		if seen[fields[0]] || len(fields[0]) > 64 {
			return nil, fmt.Errorf("line %d: expected a new ID of at most 64 bytes, found %.70q", n, fields[0])
		}
		seen[fields[0]] = true
		k, err := newKey(fields[0], secret)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	if len(all) == 0 {
		return nil, errors.New("expected a line ID KEY, found none")
	}
	return all, nil
}

func newKey(id string, secret []byte) (key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, err
	}
	gcm, err := cipher.NewGCM(block)
	return key{id, gcm}, err
}

// IDs lists the keys, the one that seals first.
func (k *Keys) IDs() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, one := range k.all {
		out = append(out, one.id)
	}
	return out
}

// Seal seals a state.
func (k *Keys) Seal(s State) []byte {
	k.mu.Lock()
	with := k.all[0]
	k.mu.Unlock()
	b := append([]byte(magic), byte(len(with.id)))
	b = append(b, with.id...)
	head := len(b)
	nonce := make([]byte, with.gcm.NonceSize())
	rand.Read(nonce)
	b = append(b, nonce...)
	plain := make([]byte, 0, len(s.Snapshot)+len(s.Model)+len(s.Version)+36)
	plain = append(plain, s.Sequence[:]...)
	plain = binary.LittleEndian.AppendUint64(plain, s.Number)
	plain = binary.LittleEndian.AppendUint64(plain, uint64(s.Expires.Unix()))
	for _, text := range []string{s.Model, s.Version} {
		plain = binary.LittleEndian.AppendUint16(plain, uint16(len(text)))
		plain = append(plain, text...)
	}
	plain = append(plain, s.Snapshot...)
	return with.gcm.Seal(b, nonce, plain, b[:head])
}

// Open opens a sealed state.
func (k *Keys) Open(b []byte, now time.Time) (*State, error) {
	rest, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok || len(rest) < 1 || len(rest) < 1+int(rest[0]) {
		return nil, errors.New("not a state of essmc")
	}
	id := string(rest[1 : 1+rest[0]])
	rest = rest[1+rest[0]:]
	head := len(b) - len(rest)
	k.mu.Lock()
	all := k.all
	k.mu.Unlock()
	for _, with := range all {
		if with.id != id || len(rest) < with.gcm.NonceSize() {
			continue
		}
		n := with.gcm.NonceSize()
		plain, err := with.gcm.Open(nil, rest[:n], rest[n:], b[:head])
		if err != nil {
			return nil, ErrForeign
		}
		return opened(plain, now)
	}
	return nil, ErrForeign
}

// opened reads the text of a state, which a key of ours has sealed.
func opened(plain []byte, now time.Time) (*State, error) {
	s := &State{}
	bad := errors.New("state is incomplete")
	if len(plain) < 32 {
		return nil, bad
	}
	copy(s.Sequence[:], plain)
	s.Number = binary.LittleEndian.Uint64(plain[16:])
	s.Expires = time.Unix(int64(binary.LittleEndian.Uint64(plain[24:])), 0)
	plain = plain[32:]
	for _, text := range []*string{&s.Model, &s.Version} {
		if len(plain) < 2 || len(plain)-2 < int(binary.LittleEndian.Uint16(plain)) {
			return nil, bad
		}
		n := int(binary.LittleEndian.Uint16(plain))
		*text, plain = string(plain[2:2+n]), plain[2+n:]
	}
	s.Snapshot = plain
	if now.After(s.Expires) {
		return nil, fmt.Errorf("%w at %s", ErrExpired, s.Expires.UTC().Format(time.RFC3339))
	}
	return s, nil
}
