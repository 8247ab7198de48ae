// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// UserEntry names a user by credentials, or all users by a placeholder.
type UserEntry struct {
	// Name is the user's name, or a placeholder with the names of all users.
	Name string
	// Keys are API keys, their SHA-256 as `sha256:<hex>`, or hashes as in records.
	Keys []string
	// Groups are the user's groups. Those of a placeholder may be placeholders.
	Groups []string
}

const (
	maxName = 64
	// maxGroups bounds the groups of one user in a placeholder.
	maxGroups = 32
	// hashDigits is the length of an unnamed user's hash, hashPrefix the prefix of a key's SHA-256.
	hashDigits = 16
	hashPrefix = "sha256:"
)

// Validate reports an invalid entry, without revealing a key.
func (u *UserEntry) Validate() error {
	every := Differs(u.Name)
	switch {
	case u.Name == "":
		return errors.New("the name is missing")
	case every && len(u.Keys) > 0:
		return fmt.Errorf("%q: a placeholder that differs from request to request names users itself, without a key", u.Name)
	case isHash(u.Name, hashDigits), looksLikeKey(u.Name):
		return errors.New("a key or its hash stands in the place of the name, which comes first")
	case !every:
		if err := ValidateName(u.Name); err != nil {
			return err
		}
	}
	for _, key := range u.Keys {
		switch {
		case key == "":
			return fmt.Errorf("%q: a key is empty", u.Name)
		case Differs(key):
			return fmt.Errorf("%q: a key is a placeholder that differs from request to request", u.Name)
		}
	}
	for _, g := range u.Groups {
		if every && Differs(g) {
			continue
		}
		if err := ValidateName(g); err != nil {
			return fmt.Errorf("%q: group: %w", u.Name, err)
		}
	}
	return nil
}

// looksLikeKey reports whether a name is probably a key, which would then be on record.
func looksLikeKey(name string) bool {
	return slices.ContainsFunc([]string{hashPrefix, "sk-", "llmc-", "AIza"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// ValidateName checks the name of a user, a group or a project.
func ValidateName(name string) error {
	if name == "" || len(name) > maxName || printable(name) != name {
		return fmt.Errorf("a name must have between 1 and %d bytes, and be printable", maxName)
	}
	if strings.ContainsAny(name, "{}") {
		return fmt.Errorf("%q: a name has no braces: of placeholders only those that differ from request to request, "+
			"such as {http.auth.user.id}, name users", name)
	}
	return nil
}

// Users maps requests to users. Nil has no configured users.
type Users struct {
	keys   map[[sha256.Size]byte]string // names by the SHA-256 of keys
	hashes map[string]string            // names by the hash in records
	by     []UserEntry                  // placeholders
	groups map[string][]string          // by the user's name
}

// NewUsers returns the users of a configuration. Keys are not kept. Several entries may have the same
// name.
func NewUsers(users []UserEntry) (*Users, error) {
	p := &Users{keys: map[[sha256.Size]byte]string{}, hashes: map[string]string{}, groups: map[string][]string{}}
	for i := range users {
		if err := p.add(&users[i]); err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
	}
	return p, nil
}

func (p *Users) add(u *UserEntry) error {
	if err := u.Validate(); err != nil {
		return err
	}
	if Differs(u.Name) {
		p.by = append(p.by, *u)
		return nil
	}
	for _, g := range u.Groups {
		if !slices.Contains(p.groups[u.Name], g) {
			p.groups[u.Name] = append(p.groups[u.Name], g)
		}
	}
	for _, key := range u.Keys {
		if err := p.addKey(u.Name, key); err != nil {
			return err
		}
	}
	return nil
}

func (p *Users) addKey(name, key string) error {
	key, err := caddy.NewReplacer().ReplaceOrErr(key, true, true)
	switch {
	case err != nil:
		return fmt.Errorf("%q: the key: %w", name, err)
	case isHash(key, hashDigits):
		return addTo(p.hashes, key, name)
	case strings.HasPrefix(key, hashPrefix):
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(key[len(hashPrefix):])); err != nil || n != len(sum) {
			return fmt.Errorf("%q: no SHA-256 in hexadecimal stands behind %s", name, hashPrefix)
		}
		return addTo(p.keys, sum, name)
	}
	// Keep the hash only, not the key.
	return addTo(p.keys, sha256.Sum256([]byte(bare(key))), name)
}

// Groups returns the groups of a user that the configuration names.
func (p *Users) Groups(name string) []string {
	if p == nil {
		return nil
	}
	return p.groups[name]
}

func addTo[K comparable](names map[K]string, key K, name string) error {
	if other, ok := names[key]; ok && other != name {
		return fmt.Errorf("%q and %q are known by the same key", other, name)
	}
	names[key] = name
	return nil
}

// isHash reports whether text is a hash of so many digits, in lower case.
func isHash(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}

// User is the user behind a request, independent of the header that carries the key. Several keys
// of one configured user give the same user.
type User struct {
	// Hash is a keyed hash of the credential.
	Hash string
	// Name is the user's name, or the hash without one.
	Name string
	// Groups are the user's groups.
	Groups []string
}

// Known reports whether a key of the configuration, a placeholder or Caddy's authentication named the
// user.
func (u *User) Known() bool { return u.Name != u.Hash }

// Of returns the user behind a request. A configured user's key counts in any header. Otherwise the
// credential in the API's own header counts; reads names that header, "" for Authorization. Users
// without a configured name are named by the first placeholder that is not empty, or by Caddy's
// authenticated user ID.
func (p *Users) Of(r *http.Request, k *Key, reads string) User {
	return p.name(r, p.known(r, k, reads))
}

// OfTenant is [Users.Of] for a known tenant. It caches the result by tenant.
func (p *Users) OfTenant(r *http.Request, k *Key, t sessioncache.Tenant, reads string) User {
	if namedTenant(r).alone { // one tenant may have several users, by their credentials
		return p.Of(r, k, reads)
	}
	// A direct-mapped cache, indexed by the first byte of the tenant.
	at := &k.users[t[0]]
	n := at.Load()
	if n == nil || n.tenant != t || n.users != p || n.reads != reads {
		n = p.known(r, k, reads)
		n.tenant, n.users, n.reads = t, p, reads
		at.Store(n)
	}
	return p.name(r, n)
}

// knownUser is the cached user of a tenant at an API.
type knownUser struct {
	tenant sessioncache.Tenant
	users  *Users
	reads  string

	hash string
	name string // "" for no configured user
}

// known returns the hash of a request's user, and the name if the key is configured.
func (p *Users) known(r *http.Request, k *Key, reads string) *knownUser {
	keys := keysOf(r)
	if p != nil {
		for _, key := range keys.all {
			name, ok := p.keys[sha256.Sum256([]byte(key))]
			var hash string
			if !ok && len(p.hashes) > 0 {
				hash = k.userHash(r, key)
				name, ok = p.hashes[hash]
			}
			if ok {
				return &knownUser{hash: cmp.Or(hash, k.userHash(r, key)), name: name}
			}
		}
	}
	n := &knownUser{hash: k.userHash(r, keys.at(reads))}
	if p != nil { // a tenant by placeholders alone has a hash, too
		n.name = p.hashes[n.hash]
	}
	return n
}

// userHash returns the hash of the user with a key, "" for none. The header of the key does not matter.
func (k *Key) userHash(r *http.Request, key string) string {
	sum := k.hash(r, func(b []byte, r *http.Request) []byte {
		if namedTenant(r).alone {
			return appendNamed(b, r)
		}
		if key != "" {
			b = append(append(b, "Bearer "...), key...)
			b = append(b, 0, 0)
		} else {
			b = AppendField(b, "")
		}
		// Hash like a request with the key in Authorization, so that the header does not matter.
		for range credentials[1:] {
			b = AppendField(b, "")
		}
		return appendNamed(b, r)
	})
	var digits [hashDigits]byte
	hex.Encode(digits[:], sum[:hashDigits/2])
	return reuse.Intern(digits[:])
}

// name names the user behind a request, by the key or else by what has authenticated the user.
func (p *Users) name(r *http.Request, n *knownUser) User {
	if n.name != "" {
		return User{Hash: n.hash, Name: n.name, Groups: p.groups[n.name]}
	}
	if p != nil && len(p.by) > 0 {
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			for i := range p.by {
				if name := printable(repl.ReplaceAll(p.by[i].Name, "")); name != "" {
					return User{Hash: n.hash, Name: name, Groups: p.claimed(repl, name, p.by[i].Groups)}
				}
			}
		}
	}
	if user := printable(authenticated(r)); user != "" {
		return User{Hash: n.hash, Name: user, Groups: p.Groups(user)}
	}
	return User{Hash: n.hash, Name: n.hash}
}

// claimed returns the groups of a user named by a placeholder: those of the configuration and those in
// the placeholders, separated by commas or spaces.
func (p *Users) claimed(repl *caddy.Replacer, name string, by []string) []string {
	groups := p.groups[name]
	if len(by) == 0 {
		return groups
	}
	groups = slices.Clone(groups)
	for _, claim := range by {
		for g := range strings.FieldsFuncSeq(repl.ReplaceAll(claim, ""), func(r rune) bool {
			return r == ',' || unicode.IsSpace(r)
		}) {
			if len(groups) >= maxGroups {
				return groups
			}
			if g = printable(strings.Trim(g, `[]"`)); g != "" && !slices.Contains(groups, g) { // a list, as text
				groups = append(groups, g)
			}
		}
	}
	return groups
}

// printable bounds a name, and removes characters that could control a terminal.
func printable(name string) string {
	if len(name) > maxName {
		name = strings.Clone(name[:maxName]) // copy, since a header may have a megabyte
		// The cut may be inside a rune.
		for len(name) > 0 && !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
}

// bare returns the key in a credential, without the scheme.
func bare(v string) string {
	const scheme = "Bearer "
	if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return strings.TrimSpace(v[len(scheme):])
	}
	return v
}

// keys are the keys in a request: all of them, and the first in each place.
type keys struct {
	all   []string
	first [len(credentials) + 1]string // in the order of credentials; the query is the last
}

// maxKeys bounds the examined keys in one place.
const maxKeys = 64

// keysOf returns the keys of a request, in the order of credentials and parameters.
func keysOf(r *http.Request) (k keys) {
	see := func(place int, v string) {
		if v = bare(lasting(v)); v == "" {
			return
		}
		if k.first[place] == "" {
			k.first[place] = v
		}
		k.all = append(k.all, v)
	}
	for i, name := range credentials {
		for _, v := range r.Header[name][:min(len(r.Header[name]), maxKeys)] {
			see(i, v)
		}
	}
	if r.URL.RawQuery != "" {
		query, _ := url.ParseQuery(r.URL.RawQuery) // the readable part of a malformed query counts
		for _, name := range parameters {
			for _, v := range query[name][:min(len(query[name]), maxKeys)] {
				see(len(credentials), v)
			}
		}
	}
	return k
}

// at returns the key in the header that an API reads, "" for Authorization. If it is missing, the
// first key in another place counts.
func (k *keys) at(reads string) string {
	place := max(0, slices.Index(credentials[:], reads))
	key := k.first[place]
	if reads == "X-Goog-Api-Key" { // the Gemini API also reads the query
		key = cmp.Or(key, k.first[len(credentials)])
	}
	return cmp.Or(key, cmp.Or(k.first[:]...))
}
