// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// root is the folder of the project.
const root = "../.."

// The committed pictures are those that the program draws. Each is well formed, and no text of it
// is cut off or overlaps another one.
func TestPictures(t *testing.T) {
	all, err := draw(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, d := range all {
		committed, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
		}
		if string(committed) != d.String() {
			t.Errorf("%s is not what its description gives: run `make pictures`, and look at it", path)
		}
		for _, problem := range d.Problems() {
			t.Errorf("%s: %s", path, problem)
		}
		for x := xml.NewDecoder(strings.NewReader(d.String())); ; {
			if _, err := x.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", path, err)
				break
			}
		}
		for _, size := range regexp.MustCompile(`(?:font|font-size):(\d+)px`).FindAllStringSubmatch(d.String(), -1) {
			if px, _ := strconv.Atoi(size[1]); px < 13 {
				t.Errorf("%s has letters of %d px, which nobody can read", path, px)
			}
		}
		if size := len(d.String()); size > 60_000 {
			t.Errorf("%s has %d bytes", path, size)
		}
		if s := d.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%s has a place that is no number", path)
		}
	}
}
