// SPDX-License-Identifier: Apache-2.0

// Command image makes container images without a container engine, and pushes them to a registry.
//
//	image archive -arch ARCH -version VERSION -name NAME:TAG -out FILE FOLDER
//	image digest ARCHIVE...
//	image push NAME:TAG ARCHIVE...
//	image roots >FILE
//
// An archive has one image of one architecture. It is an OCI image layout in a tar file, with the index
// of `docker save` beside it, so docker, podman, skopeo and containerd load it. FOLDER has what `make
// release-files` makes. push joins archives into one image of several architectures, and prints NAME with
// its digest; digest prints that digest. It takes credentials from docker's config.json. roots prints the
// certificates that images trust.
//
// The same files give the same bytes. Times are SOURCE_DATE_EPOCH of the environment, in seconds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("expected archive, digest, push or roots")
	}
	command, args := args[0], args[1:]
	switch {
	case command == "archive":
		return runArchive(args)
	case command == "digest" && len(args) > 0:
		index, err := join(args)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, digest)
		return err
	case command == "push" && len(args) > 1:
		pushed, err := push(args[0], args[1:])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, pushed)
		return err
	case command == "roots":
		return writeRoots(w)
	}
	return fmt.Errorf("%s: expected archive, digest ARCHIVE, push NAME:TAG ARCHIVE or roots", command)
}

func runArchive(args []string) error {
	var r recipe
	flags := flag.NewFlagSet("archive", flag.ContinueOnError)
	flags.StringVar(&r.arch, "arch", "", "as Go calls it")
	flags.StringVar(&r.version, "version", "", "of the program")
	flags.StringVar(&r.name, "name", "", "of the image, with its tag")
	out := flags.String("out", "", "the archive")
	source := flags.String("source", "..", "the folder of the project")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.arch == "" || r.version == "" || r.name == "" || *out == "" || flags.NArg() != 1 {
		return errors.New("expected archive -arch ARCH -version VERSION -name NAME:TAG -out FILE FOLDER")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w; expected seconds", err)
	}
	r.source, r.folder, r.time = *source, flags.Arg(0), time.Unix(epoch, 0).UTC()
	image, err := r.image()
	if err != nil {
		return err
	}
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	return errors.Join(r.archive(f, image), f.Close())
}
