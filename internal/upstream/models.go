// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// ModelName maps a client's model name to the upstream's.
type ModelName struct {
	// From is the client's name. Each * in it stands for any characters.
	From string `json:"from"`
	// To is the upstream's name.
	To string `json:"to"`
}

// formats returns the formats that the upstream speaks, none for any. Requests in other formats are
// translated to the first one.
func (u *Upstream) formats() []wire.Format {
	if u == nil {
		return nil
	}
	if u.Format != "" {
		return []wire.Format{u.Format}
	}
	return u.preset().formats
}

// speaks reports whether the upstream takes requests of a format untranslated.
func (u *Upstream) speaks(f wire.Format) bool {
	known := u.formats()
	return known == nil || slices.Contains(known, f)
}

// Official reports whether the upstream is a provider's own API.
func (u *Upstream) Official() bool {
	return u.preset().official
}

// Local reports whether the upstream is a local server.
func (u *Upstream) Local() bool {
	return u != nil && u.Preset != "" && !u.Official() && !u.preset().hosted
}

// Name is the name of the preset, "" for none.
func (u *Upstream) Name() string {
	if u == nil {
		return ""
	}
	return u.Preset
}

// Renames reports whether any model has another name at the upstream.
func (u *Upstream) Renames() bool { return len(u.models()) > 0 }

// models returns the model names in force.
func (u *Upstream) models() []ModelName {
	if u != nil && len(u.Models) > 0 {
		return u.Models
	}
	return u.preset().models
}

// Model returns the upstream's name of a model.
func (u *Upstream) Model(name string) string {
	for _, m := range u.models() {
		if matches(m.From, name) {
			return m.To
		}
	}
	return name
}

// matches reports whether a name fits a pattern, in which each * stands for any characters.
func matches(pattern, name string) bool {
	head, rest, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		part, more, open := strings.Cut(rest, "*")
		if !open {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], more
	}
}
