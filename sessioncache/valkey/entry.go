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

// entry is the value of a session on the server: the version, the digest, the answers in a row, and
// the snapshot, empty for a deleted session. The version comes first, so that it can be read alone.
type entry struct {
	version  sessioncache.Version
	name     sessioncache.Digest
	answers  []byte
	snapshot []byte
}

const (
	versionSize = 8
	digestSize  = len(sessioncache.Digest{})
	// headSize is the size of the part before the answers: version, digest, and number of answers.
	// A deleted session has nothing else.
	headSize = versionSize + digestSize + 1
	// maxAnswers is above the number of answers that a session can have.
	maxAnswers = 255
)

// pack encodes a record as the value on the server. The result may be recycled.
func pack(r *sessioncache.Record, version sessioncache.Version) []byte {
	answers := r.Answers[:min(len(r.Answers), maxAnswers)]
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

// unpack decodes a value, or the beginning of it. A damaged value yields a deleted session, or a
// snapshot that cannot be opened.
func unpack(all []byte) (e entry) {
	e.version = version(all)
	if len(all) < headSize {
		return e
	}
	copy(e.name[:], all[versionSize:])
	answers, rest := int(all[headSize-1])*digestSize, all[headSize:]
	// The value may be cut off or damaged.
	answers = min(answers, len(rest)/digestSize*digestSize)
	e.answers, e.snapshot = rest[:answers], rest[answers:]
	return e
}

// version returns the version at the beginning of a value, 0 if it is empty.
func version(all []byte) sessioncache.Version {
	if len(all) < versionSize {
		return 0
	}
	return sessioncache.Version(binary.BigEndian.Uint64(all))
}

// has reports whether an answer belongs to the session.
func (e *entry) has(answer sessioncache.Digest) bool {
	for a := range slices.Chunk(e.answers, digestSize) {
		if bytes.Equal(a, answer[:]) {
			return true
		}
	}
	return false
}
