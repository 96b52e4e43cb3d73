// A real provider for the soak: `oidc-provider` of npm, with one client that must use PKCE.
// Call it as: node oidc_provider.mjs FOLDER PORT REDIRECT SECRET. FOLDER has the package in its node_modules.
import { pathToFileURL } from 'node:url';

const [folder, port, redirect, secret] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${folder}/node_modules/oidc-provider/lib/index.js`));
const groups = { ann: ['devs'] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'jobs', client_secret: secret, redirect_uris: [redirect] }],
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups'], email: ['email', 'email_verified'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: `${id}@here`, groups: groups[id] ?? [] }),
  }),
  pkce: { required: () => true },
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
