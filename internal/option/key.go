// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package option

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
)

// DataDir returns the folder of files that outlive the process.
func DataDir() string { return filepath.Join(caddy.AppDataDir(), "llm_cache") }

// Expand returns a configured path with its placeholders replaced.
func Expand(path string) string { return caddy.NewReplacer().ReplaceAll(path, "") }

// KeyName is the file in [DataDir] from which all lasting keys are derived: those for tenants,
// snapshots, folded texts, and the hashes of tenants on record. Keys for comparisons within the
// process, such as hash seeds, are random.
const KeyName = "key"

// Key returns the key for a purpose: the configured text, which may be a placeholder; or the key in
// the configured file, which is made if it is missing; or by default one derived from [KeyName].
func Key(text, file, purpose string) (key secret.Key, err error) {
	switch {
	case text != "" && file != "":
		return key, ErrTwoKeys
	case text != "":
		if text, err = caddy.NewReplacer().ReplaceOrErr(text, true, true); err == nil {
			key, err = secret.Parse(text)
		}
		if err != nil {
			err = fmt.Errorf("key: %w", err)
		}
		return key, err
	case file != "":
		key, err = secret.ObtainFile(Expand(file))
	default:
		if key, err = secret.ObtainFile(filepath.Join(DataDir(), KeyName)); err == nil {
			key = key.Derive(purpose)
		}
	}
	if err != nil {
		err = fmt.Errorf("key_file: %w", err)
	}
	return key, err
}

// ErrTwoKeys refuses a key beside a file with a key.
var ErrTwoKeys = errors.New("key and key_file: only one of them can be the key")

// LastingKey returns the default key for a purpose, or on an error a random one as well.
func LastingKey(purpose string) (secret.Key, error) {
	key, err := Key("", "", purpose)
	if err != nil {
		key = secret.Random()
	}
	return key, err
}
