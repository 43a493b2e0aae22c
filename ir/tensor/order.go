package tensor

import (
	"encoding/binary"
	"errors"
)

// ErrByteOrder is the error of readers and writers of files on machines that store the most significant byte first.
var ErrByteOrder = errors.New("byte order: expected a machine that stores the least significant byte first, found " +
	"one that stores it last; try amd64 or arm64")

// CheckByteOrder returns ErrByteOrder on such a machine. The bytes of files become the storage of tensors as they are,
// so every reader and writer of binary files calls it first: wrong numbers would be silent.
func CheckByteOrder() error { return byteOrder(binary.NativeEndian) }

func byteOrder(native binary.ByteOrder) error {
	if native.Uint16([]byte{1, 0}) != 1 {
		return ErrByteOrder
	}
	return nil
}
