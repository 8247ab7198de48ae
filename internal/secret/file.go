// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Random returns a new key.
func Random() (k Key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

var errForm = fmt.Errorf("must be %d bytes in hexadecimal or base64", len(Key{}))

// Parse reads a key: 32 bytes in hexadecimal or base64.
func Parse(text string) (k Key, err error) {
	text = strings.TrimSpace(text)
	raw, err := hex.DecodeString(text)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil || len(raw) != len(k) {
		return k, errForm // the cause might quote a part of the key
	}
	copy(k[:], raw)
	return k, nil
}

// ReadFile reads a key from a file, which must be readable by its owner only.
func ReadFile(path string) (k Key, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return k, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return k, fmt.Errorf("%s may be read by others (mode %04o)", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return k, err
	}
	if k, err = Parse(string(text)); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, err
}

// ObtainFile reads a key from a file, or makes the file with a new key.
func ObtainFile(path string) (Key, error) {
	k, err := ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	k = Random()
	if err = write(path, k, install); errors.Is(err, fs.ErrExist) { // another process was faster
		return ReadFile(path)
	}
	return k, err
}

// install puts a new file in its place, unless there is one.
func install(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The file system has no hard links.
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}

// WriteFile writes a key to a file, in place of one that is there.
func WriteFile(path string, k Key) error { return write(path, k, os.Rename) }

// write makes a file with a key and puts it in its place, so that no reader sees a part of it.
func write(path string, k Key, place func(from, to string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-") // readable by its owner only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a rename
	_, err = f.WriteString(hex.EncodeToString(k[:]) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return place(f.Name(), path)
}
