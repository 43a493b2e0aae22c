package feed

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func imagePort(elem tensor.DType, dims ...any) runtime.Port {
	t := &ir.TensorType{Elem: elem}
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			t.Shape = append(t.Shape, ir.Const(int64(d)))
		case string:
			t.Shape = append(t.Shape, ir.Sym(d))
		}
	}
	return runtime.Port{Name: "x", Type: t}
}

// TestImages compares inputs with those that Pillow and torchvision make, bit by bit: testdata/images.py.
func TestImages(t *testing.T) {
	list, err := os.Open("testdata/images/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	n := 0
	for lines := bufio.NewScanner(list); lines.Scan(); n++ {
		f := strings.Fields(lines.Text()) // golden, image, resize, normalize, size of the input, channels
		var o Image
		if f[2] != "-" {
			if err := o.Resize.Set(f[2]); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Normalize.Set(f[3]); err != nil {
			t.Fatal(err)
		}
		var h, w any = "h", "w"
		if f[4] != "any" {
			var a, b int
			if _, err := fmt.Sscanf(f[4], "%dx%d", &a, &b); err != nil {
				t.Fatal(err)
			}
			h, w = a, b
		}
		channels := int(f[5][0] - '0')
		want, err := arrays.Read(filepath.Join("testdata/images", f[0]))
		if err != nil {
			t.Fatal(err)
		}
		elem := want.Tensor.DType()
		for _, port := range []runtime.Port{imagePort(elem, "N", h, w, channels), imagePort(elem, 1, channels, h, w)} {
			got, _, err := readImage(t.Context(), filepath.Join("testdata/images", f[1]), port, &o)
			if err != nil {
				t.Errorf("%s, %v: %v", lines.Text(), port.Type, err)
				continue
			}
			y := want.Tensor.Bytes()
			if got.Dim(1) == channels && got.Dim(3) != channels { // channels first
				y = planar(want.Tensor, want.Tensor.Len()/channels, channels).Bytes()
			}
			near := 0 // Go's decoder of progressive files rounds at other places than libjpeg
			if f[1] == "progressive.jpg" {
				near = 3
			}
			if d := farthest(got.Bytes(), y, near > 0); d > near || got.DType() != elem {
				t.Errorf("%s: %s differs from Pillow's %s by %d", lines.Text(), got, want.Tensor, d)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d cases", n)
	}
}

// farthest returns the largest difference of two bytes, or 256 if bytes that must be equal differ.
func farthest(a, b []byte, near bool) int {
	if len(a) != len(b) || !near && !bytes.Equal(a, b) {
		return 256
	}
	d := 0
	for i := range a {
		d = max(d, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return d
}

// TestImageLayouts checks where images go.
func TestImageLayouts(t *testing.T) {
	for _, c := range []struct {
		port runtime.Port
		want string // the shape, or the error
	}{
		{imagePort(tensor.Float32, 1, 3, 8, 9), "float32[1,3,8,9]"},
		{imagePort(tensor.Float32, "N", 8, 9, 3), "float32[1,8,9,3]"},
		{imagePort(tensor.Float32, "N", "c", "h", "w"), "float32[1,3,37,53]"},
		{imagePort(tensor.Float32, "batch", "height", "width", "num_channels"), "float32[1,37,53,3]"},
		{imagePort(tensor.Float32, "batch", "num_channels", "height", "width"), "float32[1,3,37,53]"},
		{imagePort(tensor.Float32, "a", "b", "c1", "d"), "float32[1,3,37,53]"},
		{imagePort(tensor.Float32, 1, 1, 8, 9), "float32[1,1,8,9]"},
		{imagePort(tensor.Float32, "N", 28, 28), "float32[1,28,28]"},
		{imagePort(tensor.Float32, 3, 8, 9), "float32[3,8,9]"},
		{imagePort(tensor.Float32, 8, 9, 3), "float32[8,9,3]"},
		{imagePort(tensor.Float32, 8, 9), "float32[8,9]"},
		{imagePort(tensor.Float32, "N", 9), "an image needs an input such as"},
		{imagePort(tensor.Float32, 1, 784), "an image needs an input such as"},
		{imagePort(tensor.Uint8, 1, 8, 9, 3), "uint8[1,8,9,3]"},
		{imagePort(tensor.Float32, 8, 3, 8, 9), "found float[8,3,8,9], which takes 8 images at once"},
		{imagePort(tensor.Float32, 1, 5, 8, 9), "an image needs an input such as float[1,3,H,W]"},
		{imagePort(tensor.Float32, 9), "an image needs an input such as"},
		{imagePort(tensor.String, "N", 3, 8, 9), "an image needs an input such as"},
	} {
		x, _, err := readImage(t.Context(), "testdata/images/rgb.png", c.port, &Image{})
		got := fmt.Sprint(err)
		if err == nil {
			got = x.DType().String() + tensor.ShapeString(x.Shape())
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: found %s, expected %s", c.port.Type, got, c.want)
		}
	}
	file, err := os.ReadFile("testdata/images/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	x, _, err := readImage(t.Context(), "testdata/images/rgb.png", imagePort(tensor.Uint8, "n"), &Image{})
	if err != nil || !bytes.Equal(x.Bytes(), file) {
		t.Errorf("a model that decodes images gets %s, %v", x, err)
	}
}

// TestImageErrors checks that damaged files and wrong flags are refused.
func TestImageErrors(t *testing.T) {
	good, err := os.ReadFile("testdata/images/photo.jpg")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	port := imagePort(tensor.Float32, 1, 3, 8, 9)
	for name, c := range map[string]struct {
		file, want string
	}{
		"text.png": {"hello", "expected a PNG, JPEG, GIF, BMP, TIFF or WebP image"},
		"cut.jpg":  {string(good[:300]), "image"},
		"huge.png": {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\x00\x00\x00", "image"},
		"none.png": {"", "none.png"},
	} {
		path := filepath.Join(dir, name)
		if c.file != "" {
			if err := os.WriteFile(path, []byte(c.file), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := readImage(t.Context(), path, port, &Image{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, expected %q", name, err, c.want)
		}
	}
	var r Resize
	for _, text := range []string{"", "x", "0", "-1", "224x", "99999999", "1x2x3", "crop,nearest", "cover"} {
		if err := r.Set(text); err == nil {
			t.Errorf("--resize %q is taken", text)
		}
	}
	var n Normalize
	for _, text := range []string{"", "imagenett", "1", "1/0", "1,2/3", "nan/1", "1/-1"} {
		if err := n.Set(text); err == nil {
			t.Errorf("--normalize %q is taken", text)
		}
	}
	for _, c := range []struct {
		port              runtime.Port
		resize, normalize string
		want              string
	}{
		{port, "10x10", "none", "expected the size of the input, 8 x 9, found 10 x 10"},
		{port, "4", "none", "smaller than the input"},
		{imagePort(tensor.Float32, 1, 3, "h", "w"), "crop", "none", "no fixed height and width"},
		{imagePort(tensor.Float32, 1, 1, 8, 9), "8x9", "imagenet", "1 channels, found 3"},
		{imagePort(tensor.Uint8, 1, 3, 8, 9), "8x9", "imagenet", "takes integers"},
	} {
		var o Image
		if err := o.Resize.Set(c.resize); err != nil {
			t.Fatal(err)
		}
		if err := o.Normalize.Set(c.normalize); err != nil {
			t.Fatal(err)
		}
		_, _, err := readImage(t.Context(), "testdata/images/rgb.png", c.port, &o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: found %v, expected %q", c.resize, c.normalize, err, c.want)
		}
	}
}
