// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

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

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// DataDir returns the folder of files that outlive the process.
func DataDir() string { return filepath.Join(caddy.AppDataDir(), "llm_cache") }

// keyName is the file in Caddy's data directory from which all lasting keys are derived: those for
// tenants, snapshots, folded texts, and the hashes of tenants on record. Keys for comparisons
// within the process, such as hash seeds, are random.
const keyName = "key"

// LastingKey returns a key for a purpose that outlives the process. On an error it returns a random
// key as well.
func LastingKey(purpose string) (*tenant.Key, error) {
	key, err := FindKey("", "", purpose)
	if err != nil {
		_, _ = rand.Read(key[:]) // never fails
	}
	return &tenant.Key{Secret: key}, err
}

// FindKey returns the key for a purpose: from the configuration, or from a file, which it creates
// if it is missing. By default it derives the key from the one in Caddy's data directory.
func FindKey(text, file, purpose string) (key secret.Key, err error) {
	if text != "" {
		text, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
		if err != nil {
			return key, fmt.Errorf("key: %w", err)
		}
		if key, err = parseKey(text); err != nil {
			return key, fmt.Errorf("key: %w", err)
		}
		return key, nil
	}
	if file != "" {
		key, err = obtainKey(Expand(file))
	} else if key, err = obtainKey(filepath.Join(DataDir(), keyName)); err == nil {
		key = key.Derive(purpose)
	}
	if err != nil {
		return key, fmt.Errorf("key_file: %w", err)
	}
	return key, nil
}

// Expand returns a configured path with its placeholders replaced.
func Expand(path string) string { return caddy.NewReplacer().ReplaceAll(path, "") }

// obtainKey reads a file with a key, or creates it.
func obtainKey(file string) (key secret.Key, err error) {
	if key, err = ReadKey(file); errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(file)
	}
	return key, err
}

var errKeyForm = fmt.Errorf("no %d bytes in hexadecimal or base64", len(secret.Key{}))

func parseKey(text string) (key secret.Key, err error) {
	text = strings.TrimSpace(text)
	raw, err := hex.DecodeString(text)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil || len(raw) != len(key) {
		return key, errKeyForm // the cause might quote a part of the key
	}
	copy(key[:], raw)
	return key, nil
}

// ReadKey reads a file with a key. The file must be readable by its owner only.
func ReadKey(path string) (key secret.Key, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return key, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return key, fmt.Errorf("%s may be read by others (mode %04o)", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return key, err
	}
	if key, err = parseKey(string(text)); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return key, err
}

// makeKey creates a file with a new key. If another process was faster, it returns the key of that
// process.
func makeKey(path string) (key secret.Key, err error) {
	_, _ = rand.Read(key[:]) // never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return key, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ReadKey(path)
	}
	if err != nil {
		return key, err
	}
	_, err = f.WriteString(hex.EncodeToString(key[:]) + "\n")
	return key, errors.Join(err, f.Close())
}
