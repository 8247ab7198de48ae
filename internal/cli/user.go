// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// UserCommand returns the subcommand `user` of `caddy llm-cache`.
func UserCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "user", Short: "Makes keys of users", RunE: whichCommand}
	add := &cobra.Command{
		Use:   "add <name> [--file <file>] [--group <name>]... [--url <address>]",
		Short: "Makes a key for a user, and prints the lines for the client and the configuration",
		Long: `
Makes a random key, shows it once, and prints the lines of environment that a client
needs and the block that names the user in the configuration: it has the key's hash
only. With --file the block is appended to the file of the option users_file, which a
running Caddy reads within 5 seconds. A user who has a key gets one more.
`,
		Example: "  caddy llm-cache user add anna --group web --file users.caddyfile --url https://llm.example.com",
		Args:    cobra.ExactArgs(1),
		RunE:    subcommand.Run(addUser),
	}
	add.Flags().String("file", "", "The file of the option users_file to append the user to; it is made if need be")
	add.Flags().StringSlice("group", nil, "A group of the user; may be repeated")
	add.Flags().String("url", "https://llm.example.com", "The address of your gateway, as clients reach it")
	cmd.AddCommand(add)
	return cmd
}

// keyPrefix begins the keys that we make, so that scanners for secrets find them.
const keyPrefix = "llmc-"

func addUser(cmd *cobra.Command, f caddycmd.Flags) error {
	name := f.Arg(0)
	groups, err := f.GetStringSlice("group")
	if err != nil {
		return err
	}
	entry := tenant.UserEntry{Name: name, Groups: groups}
	if name == allowance.Each || tenant.Differs(name) {
		return fmt.Errorf("user add: the name must be that of one user, got %q", name)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(key))
	entry.Keys = []string{"sha256:" + hex.EncodeToString(sum[:])}
	if err := entry.Validate(); err != nil {
		return fmt.Errorf("user add: %w", err)
	}
	block := userBlock(&entry)
	where := "In the block llm_cache of the global options:"
	if file := f.String("file"); file != "" {
		if err := appendTo(file, block); err != nil {
			return fmt.Errorf("user add: %w", err)
		}
		where = fmt.Sprintf("Added to %s:", file)
	}
	base := strings.TrimSuffix(f.String("url"), "/")
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `The key of %s is shown this once:

    %s

For the client, by what it speaks:

    export ANTHROPIC_BASE_URL=%[3]s ANTHROPIC_AUTH_TOKEN=%[2]s
    export OPENAI_BASE_URL=%[3]s/v1 OPENAI_API_KEY=%[2]s
    export GOOGLE_GEMINI_BASE_URL=%[3]s GEMINI_API_KEY=%[2]s

%[4]s

%[5]s`, name, key, base, where, indented(block))
	return err
}

// userBlock returns a user as a block of a Caddyfile.
func userBlock(u *tenant.UserEntry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "user %s {\n", quoted(u.Name))
	for _, key := range u.Keys {
		fmt.Fprintf(&b, "\tkey %s\n", key)
	}
	if len(u.Groups) > 0 {
		b.WriteString("\tgroup")
		for _, g := range u.Groups {
			b.WriteString(" " + quoted(g))
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// quoted returns a word of a Caddyfile.
func quoted(word string) string {
	if !strings.ContainsAny(word, " \t\"`#\\") {
		return word
	}
	return `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
}

func indented(block string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString("    " + strings.ReplaceAll(line, "\t", "    "))
	}
	return b.String()
}

// appendTo appends a block to a file, on a line of its own.
func appendTo(file, block string) error {
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		block = "\n" + block
	}
	to, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// One write: a running Caddy may read the file at any moment.
	_, err = to.WriteString(block)
	return errors.Join(err, to.Close())
}
