// The token is behind `#`, which no browser sends anywhere: it is posted once, and leaves the address and the history.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("token").value = token;
  document.getElementById("login").submit();
}
