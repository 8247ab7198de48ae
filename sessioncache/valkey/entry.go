// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// entry is a session as the server has it: its version, its name, the answers that it is
// found by, each behind the other, and the snapshot, which is empty if the session was
// deleted. Versions come first, so that they can be asked for alone.
type entry struct {
	version  sessioncache.Version
	name     sessioncache.Digest
	answers  []byte
	snapshot []byte
}

const (
	versionSize = 8
	digestSize  = len(sessioncache.Digest{})
	// headSize is what stands before the answers: version, name, and how many answers
	// there are. What is no longer was deleted.
	headSize = versionSize + digestSize + 1
	// mostAnswers is more than a session has.
	mostAnswers = 255
)

// pack makes of a record what the server keeps, which may be recycled.
func pack(r *sessioncache.Record, version sessioncache.Version) []byte {
	answers := r.Answers[:min(len(r.Answers), mostAnswers)]
	if len(r.Snapshot) == 0 {
		answers = nil
	}
	b := reuse.Buffer(headSize + len(answers)*digestSize + len(r.Snapshot))
	b = binary.BigEndian.AppendUint64(b, uint64(version))
	b = append(b, r.Digest[:]...)
	b = append(b, byte(len(answers)))
	for _, a := range answers {
		b = append(b, a[:]...)
	}
	return append(b, r.Snapshot...)
}

// unpack reads what the server has, or the beginning of it. What is damaged comes to a
// session that was deleted, or to a snapshot that cannot be opened.
func unpack(all []byte) (e entry) {
	e.version = version(all)
	if len(all) < headSize {
		return e
	}
	copy(e.name[:], all[versionSize:])
	answers, rest := int(all[headSize-1])*digestSize, all[headSize:]
	answers = min(answers, len(rest)/digestSize*digestSize)
	e.answers, e.snapshot = rest[:answers], rest[answers:]
	return e
}

// version is what something begins with, 0 if that is nothing.
func version(all []byte) sessioncache.Version {
	if len(all) < versionSize {
		return 0
	}
	return sessioncache.Version(binary.BigEndian.Uint64(all))
}

// has reports whether an answer is among those of the session.
func (e *entry) has(answer sessioncache.Digest) bool {
	for a := range slices.Chunk(e.answers, digestSize) {
		if bytes.Equal(a, answer[:]) {
			return true
		}
	}
	return false
}
