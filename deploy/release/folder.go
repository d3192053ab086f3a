// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// folder is what users download.
type folder struct {
	path    string
	version string
	image   string // name of the image, with its tag
	work    string // where packages and archives are made
}

// finish moves files from the work folder, removes the work folder, and adds licences, notes and checksums.
func (f *folder) finish() error {
	if err := os.MkdirAll(f.path, 0o755); err != nil {
		return err
	}
	archives, err := f.move()
	if err != nil {
		return err
	}
	if err := f.licences(); err != nil {
		return err
	}
	if err := os.RemoveAll(f.work); err != nil {
		return err
	}
	if err := f.notes(archives); err != nil {
		return err
	}
	return f.sums()
}

// move puts packages, images and bills of materials into the folder, and returns the paths of the images.
func (f *folder) move() (archives []string, err error) {
	for _, pattern := range []string{"*.deb", "*.rpm", "puntdns-image_*.tar", "*.cdx.json"} {
		all, err := filepath.Glob(filepath.Join(f.work, pattern))
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s: expected files %s", f.work, pattern)
		}
		for _, file := range all {
			name := filepath.Base(file)
			if pattern == "puntdns-image_*.tar" || pattern == "*.cdx.json" { // packages have their version
				name = strings.Replace(name, "_", "_"+f.version+"_", 1)
			}
			to := filepath.Join(f.path, name)
			if err := os.Rename(file, to); err != nil {
				return nil, err
			}
			if strings.HasSuffix(name, ".tar") {
				archives = append(archives, to)
			}
		}
	}
	return archives, nil
}

// licences adds the licence of puntdns, and the licences of all modules that a program of the release links.
func (f *folder) licences() error {
	for from, to := range map[string]string{
		filepath.Join(source, "LICENSE"):                           "LICENSE",
		filepath.Join(f.work, "licences/all/THIRD-PARTY-LICENSES"): "THIRD-PARTY-LICENSES",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(f.path, to), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// notes writes the notes of the release, NOTES.md.
func (f *folder) notes(archives []string) error {
	changes, err := os.ReadFile(filepath.Join(source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	e, err := entryOf(string(changes), f.version)
	if err != nil {
		return err
	}
	tested, err := os.ReadFile(filepath.Join(source, "docs/tested-with.md"))
	if err != nil {
		return err
	}
	known := &facts{image: f.image, golang: runtime.Version(), tested: string(tested)}
	if known.commit, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	if e.previous != "" {
		log, err := git("log", "--no-merges", "--format=%s", "v"+e.previous+"..HEAD")
		if err != nil {
			return err
		}
		known.commits = strings.Split(log, "\n")
	}
	image := exec.Command(cmp.Or(os.Getenv("GO"), "go"), append([]string{"run", "./image", "digest"}, archives...)...)
	image.Stderr = os.Stderr
	digest, err := image.Output()
	if err != nil {
		return fmt.Errorf("the digest of the image: %w", err)
	}
	known.digest = strings.TrimSpace(string(digest))
	if known.files, err = f.names(); err != nil {
		return err
	}
	text, err := notes(e, known)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.path, "NOTES.md"), []byte(text), 0o644)
}

// names returns the names of all files, sorted.
func (f *folder) names() (names []string, err error) {
	all, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	for _, file := range all {
		names = append(names, file.Name())
	}
	return names, nil
}

// sums writes SHA256SUMS, as sha256sum(1) reads it.
func (f *folder) sums() error {
	names, err := f.names()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(f.path, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), name)
	}
	out, err := os.OpenFile(filepath.Join(f.path, "SHA256SUMS"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = out.WriteString(text.String())
	return errors.Join(err, out.Close())
}
