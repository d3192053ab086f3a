// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// stored is the image of an archive, as partial.CompressedImageCore asks for it.
type stored struct {
	files      map[string][]byte // by path
	descriptor v1.Descriptor
	manifest   v1.Manifest
}

// open reads an archive that [recipe.archive] has written.
func open(path string) (*stored, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &stored{files: map[string][]byte{}}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if want, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok && want != "" && fmt.Sprintf("%x", sha256.Sum256(content)) != want {
			return nil, fmt.Errorf("%s: the file %s is damaged: expected bytes of this digest", path, h.Name)
		}
		s.files[h.Name] = content
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(s.files["index.json"], &index); err != nil {
		return nil, fmt.Errorf("%s: index.json: %w", path, err)
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Platform == nil {
		return nil, fmt.Errorf("%s: expected one image with a platform", path)
	}
	s.descriptor = index.Manifests[0]
	text, err := s.RawManifest()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(text, &s.manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// blob returns a file by its digest, which [open] has compared.
func (s *stored) blob(digest v1.Hash) ([]byte, error) {
	content, ok := s.files["blobs/sha256/"+digest.Hex]
	if !ok {
		return nil, fmt.Errorf("%s: the archive lacks this file", digest)
	}
	return content, nil
}

func (s *stored) RawManifest() ([]byte, error)        { return s.blob(s.descriptor.Digest) }
func (s *stored) RawConfigFile() ([]byte, error)      { return s.blob(s.manifest.Config.Digest) }
func (s *stored) MediaType() (types.MediaType, error) { return s.descriptor.MediaType, nil }
func (s *stored) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range s.manifest.Layers {
		if d.Digest == digest {
			content, err := s.blob(digest)
			return &layer{d, content}, err
		}
	}
	return nil, fmt.Errorf("%s: no such layer", digest)
}

// layer is a layer of an archive.
type layer struct {
	v1.Descriptor
	content []byte
}

func (l *layer) Digest() (v1.Hash, error)            { return l.Descriptor.Digest, nil }
func (l *layer) Size() (int64, error)                { return l.Descriptor.Size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }
func (l *layer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.content)), nil
}

// join returns the images of archives as one of several architectures.
func join(archives []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, path := range archives {
		s, err := open(path)
		if err != nil {
			return nil, err
		}
		image, err := partial.CompressedToImage(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: s.descriptor.Platform}})
	}
	return index, nil
}

// push sends the images of archives to the registry of a name, under its tag, and returns the name with
// the digest.
func push(to string, archives []string) (string, error) {
	tag, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return "", err
	}
	index, err := join(archives)
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(tag, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return tag.Context().Digest(digest.String()).Name(), err
}
