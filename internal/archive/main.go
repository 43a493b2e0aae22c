// Command archive packs a folder for a release:
//
//	go run ./internal/archive OUT.tar.gz|OUT.zip DIR
//
// The archive has the folder itself, then its files sorted by name. It records neither times nor owners, so that equal
// folders give equal bytes on any machine. The only file that is executable in it is the program, essmc or essmc.exe.
// It imports the standard library only.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// epoch is the time of all files: the earliest that a zip archive can state.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: archive OUT.tar.gz|OUT.zip DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

// file is a regular file of the folder.
type file struct {
	path, name string // where it is; its name in the archive
	mode       fs.FileMode
	size       int64
}

func run(out, dir string) (err error) {
	files, err := list(dir)
	if err != nil {
		return err
	}
	write := writeTar
	if strings.HasSuffix(out, ".zip") {
		write = writeZip
	} else if !strings.HasSuffix(out, ".tar.gz") {
		return fmt.Errorf("%s: expected a name that ends in .tar.gz or .zip", out)
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := write(f, files); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// list returns the files below a folder, sorted by name. Their names begin with the folder's.
func list(dir string) (files []file, err error) {
	root := filepath.Base(dir)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: expected a regular file", path)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if rel == "essmc" || rel == "essmc.exe" {
			mode = 0o755
		}
		files = append(files, file{path, root + "/" + filepath.ToSlash(rel), mode, info.Size()})
		return nil
	})
	return files, err
}

func writeTar(w io.Writer, files []file) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode), Size: f.size, ModTime: epoch, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if err := copyFile(t, f.path); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func writeZip(w io.Writer, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if err := copyFile(to, f.path); err != nil {
			return err
		}
	}
	return z.Close()
}

func copyFile(to io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
