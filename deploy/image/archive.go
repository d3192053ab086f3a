// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is a file of an archive, or a folder if content is nil.
type entry struct {
	path    string
	content []byte
}

// archive writes an image as an OCI image layout (image-spec v1.1, image-layout.md) in a tar file, with
// the manifest.json of `docker save`.
func (r *recipe) archive(w io.Writer, image v1.Image) error {
	files, err := r.entries(image)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.content)), ModTime: r.time, Format: tar.FormatUSTAR}
		if f.content == nil {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(f.content); err != nil {
			return err
		}
	}
	return out.Close()
}

func (r *recipe) entries(image v1.Image) ([]entry, error) {
	tag, err := name.NewTag(r.name)
	if err != nil {
		return nil, err
	}
	full := strings.TrimPrefix(tag.Name(), "index.") // docker.io, as engines call it
	described, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	described.Platform = &v1.Platform{OS: "linux", Architecture: r.arch}
	described.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag.TagStr(), "io.containerd.image.name": full}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	all := []entry{{path: "blobs/"}, {path: "blobs/sha256/"}}
	blob := func(digest v1.Hash, content []byte, err error) (string, error) {
		path := "blobs/sha256/" + digest.Hex
		all = append(all, entry{path, content})
		return path, err
	}
	text, err := image.RawManifest()
	if _, err = blob(described.Digest, text, err); err != nil {
		return nil, err
	}
	text, err = image.RawConfigFile()
	config, err := blob(manifest.Config.Digest, text, err)
	if err != nil {
		return nil, err
	}
	var layers []string
	for _, l := range manifest.Layers {
		layer, err := compressed(image, l.Digest)
		path, err := blob(l.Digest, layer, err)
		if err != nil {
			return nil, err
		}
		layers = append(layers, path)
	}
	for _, f := range []struct {
		path  string
		value any
	}{
		{"index.json", v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{*described}}},
		{"manifest.json", []map[string]any{{"Config": config, "RepoTags": []string{full}, "Layers": layers}}},
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
	} {
		text, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{f.path, text})
	}
	return all, nil
}

// compressed returns a layer as registries store it.
func compressed(image v1.Image, digest v1.Hash) ([]byte, error) {
	layer, err := image.LayerByDigest(digest)
	if err != nil {
		return nil, err
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
